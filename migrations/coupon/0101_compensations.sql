-- Discounts that an order was promised while this service did not answer, and what became of them.

-- One row an order, for good: whatever is repeated, an order is settled once.
create table compensations (
    order_id        uuid         not null,
    state           text         not null default 'waiting',
    -- Of a waiting one: the message that tries next, and when. Another message about the same order tries too, but
    -- starts no second series of tries.
    next_event      uuid,
    due_at          timestamptz,
    -- Of one that was honoured.
    discount_minor  bigint       not null default 0,
    -- Of one that was refused, and else of the last try.
    reason          text,
    -- The message that settled it. Should it come again because its dead letter was not yet written, it is told from
    -- one that has nothing to say any more.
    settled_by      uuid,
    created_at      timestamptz  not null default now(),
    updated_at      timestamptz  not null default now(),
    constraint compensations_pkey primary key (order_id),
    constraint compensations_state_check check (state in ('waiting', 'honoured', 'refused')),
    constraint compensations_discount_minor_check check (
        discount_minor = 0 or discount_minor > 0 and state = 'honoured'
    ),
    constraint compensations_settled_check check ((state = 'waiting') = (settled_by is null))
);

-- What is counted as waiting; it stays as small as that.
create index compensations_waiting_idx on compensations (order_id) where state = 'waiting';

-- Promises that could not be kept. A person decides what the customer gets, and deletes the row.
create table manual_compensations (
    order_id        uuid         not null,
    code            text         not null,
    user_id         uuid         not null,
    subtotal_minor  bigint       not null,
    currency        text         not null,
    reason          text         not null,
    created_at      timestamptz  not null default now(),
    constraint manual_compensations_pkey primary key (order_id)
);
