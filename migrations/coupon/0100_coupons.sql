-- Coupons, and the redemptions that orders hold of them.

create table coupons (
    code            text         not null,
    kind            text         not null,
    -- What a coupon of kind percent takes off, in hundredths of the subtotal.
    percent         smallint,
    -- What a coupon of kind fixed takes off, and of subtotals in which currency.
    amount_minor    bigint,
    currency        text,
    -- Redemptions by everybody together and by one user; null is no limit.
    total_limit     bigint,
    per_user_limit  bigint,
    -- Redemptions that are held or committed now. Kept beside them, so that the last one is fought over on this row
    -- alone, and a coupon that was redeemed too often is refused here whatever the program believes.
    redeemed        bigint       not null default 0,
    valid_from      timestamptz  not null,
    valid_until     timestamptz  not null,
    constraint coupons_pkey primary key (code),
    -- The form that the API accepts for a code, so that every coupon can be asked for.
    constraint coupons_code_check check (code ~ '^[!-~]{1,64}$'),
    constraint coupons_kind_check check (
        kind = 'percent' and percent between 1 and 100 and amount_minor is null and currency is null
        or kind = 'fixed' and percent is null and amount_minor > 0 and currency ~ '^[A-Z]{3}$'
    ),
    constraint coupons_total_limit_check check (total_limit >= 0),
    constraint coupons_per_user_limit_check check (per_user_limit >= 0),
    constraint coupons_redeemed_check check (redeemed >= 0 and redeemed <= coalesce(total_limit, redeemed)),
    constraint coupons_valid_check check (valid_from < valid_until)
)
-- Half of each page stays free, so that a hot row's new versions fit on its own page and touch no index.
with (fillfactor = 50);

-- One row an order, for good. A released row without a code is a tombstone: the order died before its redemption came,
-- which must then be refused however late it comes. Nothing deletes rows, so tombstones outlive every message.
create table redemptions (
    order_id        uuid         not null,
    state           text         not null,
    -- What was asked for; the same order asking again must ask for the same.
    code            text,
    user_id         uuid,
    subtotal_minor  bigint,
    currency        text,
    -- What it came to then; a coupon that changes later changes nothing that was promised.
    discount_minor  bigint       not null default 0,
    created_at      timestamptz  not null default now(),
    updated_at      timestamptz  not null default now(),
    constraint redemptions_pkey primary key (order_id),
    constraint redemptions_code_fkey foreign key (code) references coupons (code),
    constraint redemptions_state_check check (state in ('held', 'committed', 'released', 'returned')),
    constraint redemptions_content_check check (
        num_nulls(code, user_id, subtotal_minor, currency) = 0
        or num_nonnulls(code, user_id, subtotal_minor, currency) = 0 and state = 'released' and discount_minor = 0
    ),
    -- Something is always left to pay.
    constraint redemptions_discount_minor_check check (
        discount_minor >= 0 and discount_minor < coalesce(subtotal_minor, 1)
    )
);

-- What the limit of one user is counted by.
create index redemptions_user_idx on redemptions (code, user_id) where state in ('held', 'committed');
