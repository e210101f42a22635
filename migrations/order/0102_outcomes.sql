-- What follows from an order's outcome: the wish to cancel, refunds, and whether what the order told took effect.

alter table orders
    -- The user wants it back while it is not known whether it was charged; what comes out decides how it ends.
    add column cancel_requested     boolean      not null default false,
    -- Since when it waits for its payment; kept after that.
    add column pending_since        timestamptz,
    -- Of an order that ended: since when something that it told (stock, coupon, refund, compensation) has not been
    -- seen to take effect; null while it runs, and once all of it has.
    add column unacknowledged_since timestamptz,
    add column stock_acknowledged   boolean      not null default false,
    add column coupon_acknowledged  boolean      not null default false,
    -- When the recoverer last looked after it, and how often since the last change; it waits longer each time.
    add column walked_at            timestamptz,
    add column walks                integer      not null default 0;

update orders set pending_since = updated_at where status = 'payment_pending';
update orders set unacknowledged_since = updated_at where status in ('confirmed', 'rejected', 'cancelled');

alter table orders
    add constraint orders_pending_check check (status <> 'payment_pending' or pending_since is not null),
    add constraint orders_unacknowledged_check check (unacknowledged_since is null
        or status in ('confirmed', 'rejected', 'cancelled'));

-- What the recoverer looks after; it stays as small as the work that is left.
create index orders_unacknowledged_idx on orders (unacknowledged_since) where unacknowledged_since is not null;

-- Money that goes back. A row is written in the transaction that makes it due; it is asked for under the same id until
-- payment has told that it was made.
create table refunds (
    -- Derived from order and purpose, so that asking twice names the same refund.
    refund_id     uuid         not null,
    order_id      uuid         not null,
    purpose       text         not null,
    -- For people.
    reason        text         not null,
    amount_minor  bigint       not null,
    state         text         not null default 'requested',
    requested_at  timestamptz  not null,
    refunded_at   timestamptz,
    constraint refunds_pkey primary key (refund_id),
    constraint refunds_purpose_key unique (order_id, purpose),
    constraint refunds_order_fkey foreign key (order_id) references orders (id),
    constraint refunds_purpose_check check (purpose in ('full', 'coupon')),
    constraint refunds_reason_check check (reason in ('cancelled', 'late_approval', 'coupon')),
    constraint refunds_amount_check check (amount_minor > 0),
    constraint refunds_state_check check (state in ('requested', 'refunded')
        and (state = 'refunded') = (refunded_at is not null))
);

-- What is counted as due; it stays as small as that.
create index refunds_requested_idx on refunds (requested_at) where state = 'requested';
