-- A notice about a charge whose call is still under way waits for the end of it.

alter table provider_events
    add column next_try_at timestamptz not null default now();

drop index provider_events_open_idx;
create index provider_events_due_idx on provider_events (next_try_at) where processed_at is null;
