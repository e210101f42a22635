//! The siblings that order calls, one file each: what is asked, and what each end of the call means for an order.

pub mod coupon;
pub mod inventory;
pub mod payment;
pub mod products;
pub mod recommendation;
pub mod snapshots;
