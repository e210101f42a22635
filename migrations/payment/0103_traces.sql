-- The trace of the request that each follows from: what is sent later, by a job, goes on in it. Null in rows of before, and
-- in what no request asked for.

alter table attempts
    add column traceparent text;

alter table refunds
    add column traceparent text;
