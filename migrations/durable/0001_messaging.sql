-- Messaging, the same in every service's database. Versions 1 to 99 belong to `shared/durable`; a service's own
-- migrations start at 100.

-- Events that wait to be published. A row is written in the transaction of the change that it tells of, so there is
-- an event exactly when there is a change.
create table outbox (
    -- Rows are published in this order. Ids become visible out of order (a transaction may commit late), so a reader
    -- asks for what is unpublished and never for "greater than the last one seen". Of one key they do follow the
    -- order of commits, because whoever changes an order holds its row lock when it inserts here.
    id            bigint generated always as identity,
    event_id      uuid        not null,
    topic         text        not null,
    key           text        not null,
    -- Text and not jsonb: it is published as it stands, and an escaped NUL in something a provider said would make
    -- jsonb refuse the row and with it the change.
    payload       text        not null,
    traceparent   text,
    created_at    timestamptz not null default now(),
    -- Set on the broker's delivery report alone. Published rows are kept for a while, so that a broker that lost
    -- everything can be told again.
    published_at  timestamptz,
    constraint outbox_pkey primary key (id),
    constraint outbox_event_id_key unique (event_id)
);

-- What the relay reads; it stays as small as the backlog.
create index outbox_unpublished_idx on outbox (id) where published_at is null;
-- What pruning reads.
create index outbox_published_idx on outbox (published_at) where published_at is not null;
-- Every row is written twice and deleted once: vacuum early, or the index of the unpublished fills with dead entries.
alter table outbox set (autovacuum_vacuum_scale_factor = 0.02);

-- Which broker the relay published to last. One row at most: a different broker has none of the retained events.
create table outbox_broker (
    only_row  boolean     not null default true,
    broker    text        not null,
    seen_at   timestamptz not null default now(),
    constraint outbox_broker_pkey primary key (only_row),
    constraint outbox_broker_only_row_check check (only_row)
);

-- Events that took effect here, a row for each consumer. It is inserted in the transaction of the effect, so a second
-- delivery finds it and does nothing. Kept at least as long as outboxes keep published rows.
create table inbox (
    consumer     text        not null,
    event_id     uuid        not null,
    received_at  timestamptz not null default now(),
    constraint inbox_pkey primary key (consumer, event_id)
);

-- What pruning reads.
create index inbox_received_idx on inbox (received_at);

-- Who may act alone. A row is never deleted, since its token must never be given twice: releasing makes it expire.
create table leases (
    name        text        not null,
    holder      uuid        not null,
    -- Raised by every acquisition. Writes of the holder are conditional on it, so that one who was paused past its
    -- expiry cannot write after its successor.
    token       bigint      not null default 1,
    expires_at  timestamptz not null,
    constraint leases_pkey primary key (name),
    constraint leases_token_check check (token > 0)
);
