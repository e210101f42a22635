-- One round trip: says that this replica is there and, when a counter is named, takes a lease from its quota.
-- All times are the server's. Every key that is touched gets a lifetime, also one that was found without.
--
-- KEYS  1 the replicas seen lately (sorted set)   2 the counter of one quota key (hash), left out by a mere heartbeat
-- ARGV  1 replica   2 presence, ms   3 window, µs   4 limit   5 "sliding" or "fixed"
--       6 weight of the request in hand   7 wanted   8 left of the last lease   9 the window of that lease
-- reply granted, window, µs left of it, remaining, µs until the weight may fit (0: granted), replicas
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- A name of ours that holds something else is a leftover: it would fail every call for ever.
local function claim(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then redis.call('DEL', key) end
end

local function count(text)
  local number = tonumber(text)
  if number and number >= 0 then return number end
  return 0
end

local present, presence = KEYS[1], tonumber(ARGV[2])
local now_ms = math.floor(now / 1000)
claim(present, 'zset')
-- Scores of the future are from before the clock was set back: they would count as present for ever.
redis.call('ZREMRANGEBYSCORE', present, '(' .. string.format('%.0f', now_ms), '+inf')
redis.call('ZREMRANGEBYSCORE', present, '-inf', string.format('%.0f', now_ms - presence))
redis.call('ZADD', present, string.format('%.0f', now_ms), ARGV[1])
redis.call('PEXPIRE', present, string.format('%.0f', presence))
local replicas = redis.call('ZCARD', present)

local counter = KEYS[2]
if not counter then return { 0, 0, 0, 0, 0, replicas } end

local width, limit, sliding = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == 'sliding'
local weight, wanted = tonumber(ARGV[6]), tonumber(ARGV[7])
local window = math.floor(now / width)
local elapsed = now - window * width

claim(counter, 'hash')
local stored = redis.call('HMGET', counter, 'window', 'current', 'previous')
local of, current, previous = count(stored[1]), count(stored[2]), count(stored[3])
if of == window - 1 then
  previous, current = current, 0
elseif of < window - 1 then
  previous, current = 0, 0
end
-- Else it is of this window, or of a later one: the server's clock was set back, and the counts go on from here.
local weighed = 0
if sliding then weighed = previous end

local free = math.max(0, math.floor(limit - current - weighed * (width - elapsed) / width))
local need = weight
if tonumber(ARGV[9]) == window then need = math.max(0, weight - tonumber(ARGV[8])) end

local granted, wait = 0, 0
if free >= need then
  granted = math.min(math.max(wanted, need), free)
  free = free - granted
  redis.call('HSET', counter, 'window', string.format('%.0f', window),
    'current', string.format('%.0f', current + granted), 'previous', string.format('%.0f', previous))
elseif weighed > 0 and current + need <= limit then
  -- Later in this window, when enough of the one before has gone.
  wait = width * (1 - (limit - need - current) / weighed) - elapsed
else
  -- In the next one, when enough of this one has gone. What is left of a lease does not reach into it.
  wait = width - elapsed
  if sliding and current > 0 then
    wait = wait + width * math.max(0, 1 - (limit - weight) / current)
  end
end
if granted == 0 and free < need then wait = math.max(1, math.ceil(wait)) end
-- Two windows are what a count is looked at for; one more, so that a slow caller's clock never matters.
redis.call('PEXPIRE', counter, string.format('%.0f', math.ceil(3 * width / 1000)))
return { granted, window, width - elapsed, free, wait, replicas }
