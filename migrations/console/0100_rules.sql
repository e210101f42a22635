-- Versions of the rules. The number is given at the publication and never used again; the document is kept as it was
-- written, comments and all. Which state follows which is decided by the pure function `decide` alone.
create table rule_versions (
    version      bigint      not null,
    state        text        not null,
    document     text        not null,
    author       text        not null,
    -- Whom to ask about it.
    owner        text        not null,
    reason       text        not null,
    -- The newest version when it was written.
    based_on     bigint,
    -- The instances that run it while it is a canary, and no others.
    canary       text[],
    created_at   timestamptz not null default now(),
    -- When it came into force everywhere, the last time.
    activated_at timestamptz,
    constraint rule_versions_pkey primary key (version),
    constraint rule_versions_based_on_fkey foreign key (based_on) references rule_versions (version),
    constraint rule_versions_number_check check (version > 0 and (based_on is null or based_on < version)),
    constraint rule_versions_state_check
        check (state in ('draft', 'canary', 'active', 'superseded', 'rolled_back')),
    constraint rule_versions_canary_check check ((state = 'canary') = (canary is not null)),
    constraint rule_versions_activated_check check (state not in ('active', 'superseded') or activated_at is not null)
);

-- One version is in force, and one at most is tried out.
create unique index rule_versions_active_key on rule_versions (state) where state = 'active';
create unique index rule_versions_canary_key on rule_versions (state) where state = 'canary';

-- What each instance said last of the rules that it runs on.
create table rule_instances (
    service  text        not null,
    instance text        not null,
    version  bigint      not null,
    origin   text        not null,
    -- Why it refused what it was given last.
    error    text,
    at       timestamptz not null default now(),
    constraint rule_instances_pkey primary key (service, instance),
    constraint rule_instances_origin_check check (origin in ('console', 'last_known_good', 'file', 'default'))
);

-- What operators did, in the transaction of what they did. Only ever added to.
create table operator_actions (
    id       bigint      not null generated always as identity,
    at       timestamptz not null default now(),
    operator text        not null,
    action   text        not null,
    target   text        not null,
    reason   text        not null,
    constraint operator_actions_pkey primary key (id)
);
