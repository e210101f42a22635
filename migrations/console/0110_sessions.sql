-- Operators that are in, each by a cookie of their browser. The cookie's value is kept nowhere: a row is found by its
-- hash, so that whoever reads this table gets in by none of it.
create table sessions (
    id_hash    bytea       not null,
    operator   text        not null,
    created_at timestamptz not null default now(),
    -- To the minute: a session that is in use is not written at every request.
    used_at    timestamptz not null default now(),
    expires_at timestamptz not null,
    constraint sessions_pkey primary key (id_hash),
    constraint sessions_hash_check check (octet_length(id_hash) = 32),
    constraint sessions_expiry_check check (expires_at > created_at)
);
create index sessions_operator_idx on sessions (operator, used_at);
