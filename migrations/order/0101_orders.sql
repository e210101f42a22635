-- Orders. The status is changed by the pure function `decide` alone, and every update repeats the status that it read.
create table orders (
    id               uuid        not null,
    user_id          uuid        not null,
    tenant           text,
    status           text        not null,
    status_reason    text,
    -- Raised by each event that is emitted about the order.
    version          bigint      not null default 0,
    currency         text        not null,
    -- Zero until stock is reserved, since the reservation fixes the prices.
    subtotal_minor   bigint      not null default 0,
    discount_minor   bigint      not null default 0,
    total_minor      bigint      not null default 0,
    coupon_code      text,
    coupon_state     text        not null,
    payment_method   text        not null,
    -- Set, durably, before the request to charge may leave.
    attempt_id       uuid,
    payment_state    text        not null,
    payment_channel  text,
    refunded_minor   bigint      not null default 0,
    degraded         text[]      not null default '{}',
    recommendations  jsonb       not null default '[]',
    -- What a rejected order was answered with.
    problem          jsonb,
    -- The trace of the request that placed it, so that what follows is found with it.
    traceparent      text,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    constraint orders_pkey primary key (id),
    constraint orders_attempt_key unique (attempt_id),
    constraint orders_status_check check (status in ('created', 'stock_reserved', 'payment_in_flight',
        'payment_pending', 'confirmed', 'rejected', 'cancelled')),
    constraint orders_reason_check check ((status in ('rejected', 'cancelled')) = (status_reason is not null)),
    constraint orders_total_check check (total_minor = subtotal_minor - discount_minor and discount_minor >= 0
        and total_minor >= 0 and refunded_minor between 0 and total_minor),
    -- From the moment that a charge may be under way there is an attempt to ask about, and something to pay.
    constraint orders_attempt_check check (status not in ('payment_in_flight', 'payment_pending', 'confirmed')
        or (attempt_id is not null and total_minor > 0))
);

-- A user's own orders, newest first: ids sort by time.
create index orders_user_idx on orders (user_id, id desc);
-- What stands still and what waits: the recoverer and the gauges read only these.
create index orders_open_idx on orders (updated_at)
    where status in ('created', 'stock_reserved', 'payment_in_flight', 'payment_pending');

create table order_items (
    order_id          uuid    not null,
    line              integer not null,
    sku               text    not null,
    quantity          bigint  not null,
    -- Null until the reservation fixes them.
    name              text,
    unit_price_minor  bigint,
    constraint order_items_pkey primary key (order_id, line),
    constraint order_items_order_fkey foreign key (order_id) references orders (id),
    constraint order_items_quantity_check check (quantity between 1 and 100)
);

-- Every transition, in the transaction that made it.
create table order_history (
    id           bigint generated always as identity,
    order_id     uuid        not null,
    at           timestamptz not null,
    from_status  text,
    to_status    text        not null,
    event        text        not null,
    detail       text,
    constraint order_history_pkey primary key (id),
    constraint order_history_order_fkey foreign key (order_id) references orders (id)
);

create index order_history_order_idx on order_history (order_id, id);
