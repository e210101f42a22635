-- What it takes to find out what became of an attempt, and to give money back.

alter table attempts
    -- When the intent to send to each channel became durable, for the last time. Every channel that was ever told is
    -- asked.
    add column primary_intent_at timestamptz,
    add column backup_intent_at  timestamptz,
    -- Order lets the charge wait until the provider can take it, since then.
    add column deferred_at       timestamptz,
    -- The message that asks the provider next, when it is due, and from which tier of the queue it comes. A message
    -- that is none of these starts no second series; one that is long overdue was lost.
    add column reconcile_event   uuid,
    add column reconcile_tier    smallint,
    add column reconcile_due_at  timestamptz,
    -- A charge proved wrong what had been announced before, and order may have ended by that word: it is told again of
    -- the charge from then on, until it asks for the money back. A single lost message would keep the money otherwise.
    add column contradicted_at   timestamptz;

update attempts set primary_intent_at = coalesce(last_may_have_left_at, created_at) where dispatch_no > 0;

alter table attempts
    -- The intent to send is whole: where it went is on record for good.
    add constraint attempts_intents_check check (
        (dispatch_no = 0) = (num_nonnulls(primary_intent_at, backup_intent_at) = 0)),
    add constraint attempts_reconcile_check check (
        num_nulls(reconcile_event, reconcile_tier, reconcile_due_at) in (0, 3));

-- What the sweeper, the deferred charges and the gauges look at: it stays as small as what is open.
create index attempts_open_idx on attempts (updated_at)
    where state in ('created', 'dispatched', 'unknown', 'not_dispatched', 'review');

create index attempts_contradicted_idx on attempts (contradicted_at) where contradicted_at is not null;

-- Charges that the provider proved, by whatever path. The same charge comes by several: it is one row.
create table charges (
    channel       text        not null,
    -- The provider's id of the charge, unique within its channel.
    provider_ref  text        not null,
    -- The idempotency key that the provider knows it by; of a charge that is not ours, anything.
    key           text        not null,
    -- The attempt that it belongs to, if there is one.
    attempt_id    uuid,
    amount_minor  bigint      not null,
    currency      text        not null,
    -- 'settling': it is what its attempt came to. 'extra': it settles nothing, and goes back.
    role          text        not null,
    -- The path by which it was first proved.
    found_by      text        not null,
    found_at      timestamptz not null default now(),
    constraint charges_pkey primary key (channel, provider_ref),
    constraint charges_attempt_fkey foreign key (attempt_id) references attempts (id),
    constraint charges_channel_check check (channel in ('primary', 'backup')),
    constraint charges_amount_check check (amount_minor > 0),
    constraint charges_currency_check check (currency ~ '^[A-Z]{3}$'),
    constraint charges_role_check check (role = 'extra' or (role = 'settling' and attempt_id is not null)),
    constraint charges_found_by_check check (found_by in ('call', 'question', 'webhook', 'ledger'))
);
create unique index charges_settling_key on charges (attempt_id) where role = 'settling';

-- Money that goes back. A row is sent with its own id as key until the provider says that it was made.
create table refunds (
    id                   uuid        not null,
    -- The charge that it is taken from.
    channel              text        not null,
    provider_ref         text        not null,
    amount_minor         bigint      not null,
    currency             text        not null,
    reason               text        not null,
    -- Who asked; both are null of a charge that was one too many, which no order knows of.
    order_id             uuid,
    attempt_id           uuid,
    state                text        not null default 'requested',
    sends                integer     not null default 0,
    provider_refund_ref  text,
    version              bigint      not null default 1,
    -- Whoever sends it has it until then; and when it is sent next.
    next_send_at         timestamptz not null default now(),
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    constraint refunds_pkey primary key (id),
    constraint refunds_charge_fkey foreign key (channel, provider_ref) references charges (channel, provider_ref),
    constraint refunds_amount_check check (amount_minor > 0),
    constraint refunds_asker_check check (num_nulls(order_id, attempt_id) in (0, 2)),
    constraint refunds_state_check check (state in ('requested', 'sent', 'refunded', 'review')),
    constraint refunds_sends_check check (sends >= 0)
);
create index refunds_charge_idx on refunds (channel, provider_ref);
create index refunds_due_idx on refunds (next_send_at) where state <> 'refunded';

-- What the provider told us by itself, stored before it is acted upon.
create table provider_events (
    -- The provider's: the same event comes more than once.
    id            text        not null,
    -- Where it came from, if its address said so.
    channel       text,
    body          jsonb       not null,
    received_at   timestamptz not null default now(),
    -- Null while it is still to be acted upon.
    processed_at  timestamptz,
    -- What it came to.
    outcome       text,
    constraint provider_events_pkey primary key (id),
    constraint provider_events_channel_check check (channel in ('primary', 'backup')),
    constraint provider_events_processed_check check ((processed_at is null) = (outcome is null))
);
create index provider_events_open_idx on provider_events (received_at) where processed_at is null;
