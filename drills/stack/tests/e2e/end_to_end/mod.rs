mod books;
mod contention;
mod first_orders;
mod kills;
mod messaging;
mod shop;
mod stop;
mod system;
