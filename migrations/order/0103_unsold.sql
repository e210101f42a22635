-- What came to nothing, newest first, for operators who look for it among all that was sold.
create index orders_unsold_idx on orders (status, id desc) where status in ('rejected', 'cancelled');
