-- Idempotency keys (shared/durable/src/idempotency.rs). A row is committed before any work begins, and fixes the id of
-- the order that the work is about.
create table idempotency_keys (
    user_id      uuid        not null,
    method       text        not null,
    path         text        not null,
    key          text        not null,
    -- SHA-256 of what was asked for: the same key with another body is refused.
    fingerprint  bytea       not null,
    resource_id  uuid        not null,
    -- Raised by every take-over; a phase of an older attempt finds that it has been fenced off.
    attempt      integer     not null default 1,
    lease_until  timestamptz not null,
    -- The status that the work was first answered with; null while it runs.
    outcome      smallint,
    created_at   timestamptz not null default now(),
    constraint idempotency_keys_pkey primary key (user_id, method, path, key),
    constraint idempotency_keys_resource_key unique (resource_id),
    constraint idempotency_keys_attempt_check check (attempt > 0)
);

-- What the recoverer reads: runs that have not come to an outcome.
create index idempotency_keys_running_idx on idempotency_keys (lease_until) where outcome is null;
-- What pruning reads.
create index idempotency_keys_created_idx on idempotency_keys (created_at);
