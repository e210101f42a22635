-- Attempts to charge, and every transition that they made.

create table attempts (
    -- Chosen by order; also the provider's idempotency key, on every channel.
    id                     uuid        not null,
    -- What is to be charged. Missing in a tombstone alone: an attempt that was fenced before it was ever heard of.
    order_id               uuid,
    amount_minor           bigint,
    currency               text,
    payment_method         text,
    state                  text        not null,
    -- Where the last dispatch went; after a settlement, where the charge is.
    channel                text,
    -- Raised by every dispatch. Writes are conditional on it, so that the end of one dispatch never decides another.
    dispatch_no            integer     not null default 0,
    provider_ref           text,
    decline_code           text,
    not_dispatched_reason  text,
    -- Raised by every transition; the version of the events.
    version                bigint      not null default 1,
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    -- The last moment at which a request is known to have been able to leave; null while none can have. "Not found" at
    -- the provider proves nothing until its settling time has passed since then.
    last_may_have_left_at  timestamptz,
    constraint attempts_pkey primary key (id),
    constraint attempts_state_check check (state in
        ('created', 'dispatched', 'approved', 'declined', 'unknown', 'not_dispatched', 'fenced', 'review')),
    constraint attempts_content_check check (
        num_nulls(order_id, amount_minor, currency, payment_method) = 0
        or (num_nonnulls(order_id, amount_minor, currency, payment_method) = 0 and state = 'fenced'
            and dispatch_no = 0)),
    constraint attempts_amount_check check (amount_minor > 0),
    constraint attempts_currency_check check (currency ~ '^[A-Z]{3}$'),
    constraint attempts_channel_check check (channel in ('primary', 'backup')),
    constraint attempts_dispatch_no_check check (dispatch_no >= 0),
    -- The intent to send is whole: where, which try, and since when.
    constraint attempts_dispatched_check check (
        state not in ('dispatched', 'unknown', 'review')
        or (dispatch_no > 0 and channel is not null and last_may_have_left_at is not null)),
    -- Money is never taken on faith: an approval names its charge.
    constraint attempts_approved_check check (
        state <> 'approved' or (channel is not null and provider_ref is not null)),
    constraint attempts_provider_ref_check check (provider_ref is null or state in ('approved', 'declined')),
    constraint attempts_declined_check check ((state = 'declined') = (decline_code is not null)),
    constraint attempts_not_dispatched_check check (
        (state = 'not_dispatched') = (not_dispatched_reason is not null)),
    constraint attempts_version_check check (version > 0)
);
-- An attempt is written two or three times and read by its id: leave room for updates that touch no index.
alter table attempts set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- One row a transition, never changed.
create table attempt_history (
    attempt_id  uuid        not null,
    -- The attempt's version after the transition.
    version     bigint      not null,
    -- Null in the first row.
    from_state  text,
    to_state    text        not null,
    event       text        not null,
    detail      text,
    at          timestamptz not null,
    constraint attempt_history_pkey primary key (attempt_id, version),
    constraint attempt_history_attempt_fkey foreign key (attempt_id) references attempts (id)
);
