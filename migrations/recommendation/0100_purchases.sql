-- What confirmed orders tell about products. All of it is derived from the `orders` topic, may be lost, and is bounded:
-- by the catalogue, by an order's 20 items, and by the prune job.

-- The name that a product had in the latest order. Grows with the catalogue alone.
create table products (
    sku       text        not null,
    name      text        not null,
    -- When the order was confirmed that the name is from: a replayed event does not bring an old name back.
    named_at  timestamptz not null,
    constraint products_pkey primary key (sku)
);

-- In how many orders two products were together, in both directions, so that one look-up by `sku` finds all partners.
create table bought_together (
    sku             text        not null,
    partner         text        not null,
    orders          bigint      not null default 1,
    last_bought_at  timestamptz not null,
    constraint bought_together_pkey primary key (sku, partner),
    constraint bought_together_sku_fkey foreign key (sku) references products (sku),
    constraint bought_together_partner_fkey foreign key (partner) references products (sku),
    constraint bought_together_partner_check check (partner <> sku),
    constraint bought_together_orders_check check (orders > 0)
);

-- How many orders a product was in, by day (UTC). Orders and not units: one bulk order is no trend.
create table trending (
    day     date   not null,
    sku     text   not null,
    orders  bigint not null default 1,
    constraint trending_pkey primary key (day, sku),
    constraint trending_sku_fkey foreign key (sku) references products (sku),
    constraint trending_orders_check check (orders > 0)
);

-- What a user bought of late, to be left out of what is recommended to them. Nothing else is kept of a user.
create table recent_purchases (
    user_id    uuid        not null,
    sku        text        not null,
    bought_at  timestamptz not null,
    constraint recent_purchases_pkey primary key (user_id, sku)
);

-- What pruning reads.
create index recent_purchases_bought_at_idx on recent_purchases (bought_at);
