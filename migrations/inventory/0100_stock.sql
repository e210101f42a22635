-- Products, their stock, and what orders have reserved of it.

-- What the shop sells. Rows are never deleted: orders refer to them for good.
create table products (
    sku               text    not null,
    name              text    not null,
    unit_price_minor  bigint  not null,
    currency          text    not null,
    constraint products_pkey primary key (sku),
    -- The form that the API accepts for a SKU, so that every product can be asked for.
    constraint products_sku_check check (sku ~ '^[!-~]{1,64}$'),
    constraint products_name_check check (name <> ''),
    constraint products_unit_price_minor_check check (unit_price_minor > 0),
    constraint products_currency_check check (currency ~ '^[A-Z]{3}$')
);

-- Apart from products, since this is the row that everybody writes. Units are on the shelf (on_hand, some of them
-- reserved) or sold; `received` counts what ever came in and ties the two together, so that a unit which is lost or
-- counted twice is refused here, whatever the program believes.
create table stock (
    sku       text    not null,
    on_hand   bigint  not null,
    reserved  bigint  not null default 0,
    sold      bigint  not null default 0,
    received  bigint  not null,
    constraint stock_pkey primary key (sku),
    constraint stock_sku_fkey foreign key (sku) references products (sku),
    constraint stock_on_hand_check check (on_hand >= 0),
    constraint stock_reserved_check check (reserved between 0 and on_hand),
    constraint stock_sold_check check (sold >= 0),
    constraint stock_received_check check (received = on_hand + sold)
)
-- Half of each page stays free, so that a hot row's new versions fit on its own page and touch no index.
with (fillfactor = 50);

-- One row an order, for good. A released row without items is a tombstone: the order let go before its reservation
-- came, which must then be refused however late it comes. Nothing deletes rows, so tombstones outlive every message.
create table reservations (
    order_id    uuid         not null,
    state       text         not null,
    created_at  timestamptz  not null default now(),
    updated_at  timestamptz  not null default now(),
    constraint reservations_pkey primary key (order_id),
    constraint reservations_state_check check (state in ('held', 'committed', 'returned', 'released'))
);

-- What the age of the oldest hold is read from; it stays as small as the number of open orders.
create index reservations_held_idx on reservations (created_at) where state = 'held';

-- What is reserved, with the name and the price of that moment: the order is charged what its customer was shown.
create table reservation_items (
    order_id          uuid      not null,
    -- The line's place in the request, since answers keep its order.
    position          smallint  not null,
    -- No foreign key to stock: its check would write to the hot row once more, and the rows come from there anyway.
    sku               text      not null,
    name              text      not null,
    quantity          bigint    not null,
    unit_price_minor  bigint    not null,
    currency          text      not null,
    constraint reservation_items_pkey primary key (order_id, position),
    constraint reservation_items_sku_key unique (order_id, sku),
    constraint reservation_items_order_id_fkey foreign key (order_id) references reservations (order_id),
    constraint reservation_items_quantity_check check (quantity > 0)
);

-- Deliveries by the name that their sender gave them, so that telling of one twice adds it once.
create table restocks (
    reference   text         not null,
    sku         text         not null,
    quantity    bigint       not null,
    created_at  timestamptz  not null default now(),
    constraint restocks_pkey primary key (reference),
    constraint restocks_quantity_check check (quantity > 0)
);
