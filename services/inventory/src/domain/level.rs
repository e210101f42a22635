//! The stock of one product, and how reservations and deliveries move it.
//!
//! Units are only ever moved between three places (free on the shelf, reserved on the shelf, sold), so that whatever
//! came in is on hand or sold at any moment. The database holds the same rules as check constraints.

/// Units of one product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub on_hand: i64,
    /// Of those on hand, the ones that are promised to an order.
    pub reserved: i64,
    pub sold: i64,
    /// Everything that ever came in.
    pub received: i64,
}

/// What a transition of a reservation does to the stock of each of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// Free → reserved.
    Reserve,
    /// Reserved → free.
    Free,
    /// Reserved → sold.
    Sell,
    /// Sold → free.
    TakeBack,
}

impl Movement {
    /// Change of (on hand, reserved, sold) for each unit.
    #[must_use]
    pub const fn per_unit(self) -> (i64, i64, i64) {
        match self {
            Self::Reserve => (0, 1, 0),
            Self::Free => (0, -1, 0),
            Self::Sell => (-1, -1, 1),
            Self::TakeBack => (1, 0, -1),
        }
    }
}

impl Level {
    #[must_use]
    pub const fn delivered(units: i64) -> Self {
        Self { on_hand: units, reserved: 0, sold: 0, received: units }
    }

    #[must_use]
    pub const fn available(self) -> i64 {
        self.on_hand - self.reserved
    }

    /// `None` where the rules forbid the result.
    #[must_use]
    pub fn moved(self, movement: Movement, units: i64) -> Option<Self> {
        let (on_hand, reserved, sold) = movement.per_unit();
        Self {
            on_hand: self.on_hand + on_hand * units,
            reserved: self.reserved + reserved * units,
            sold: self.sold + sold * units,
            received: self.received,
        }
        .checked()
    }

    #[must_use]
    pub fn restocked(self, units: i64) -> Option<Self> {
        Self { on_hand: self.on_hand + units, received: self.received + units, ..self }.checked()
    }

    fn checked(self) -> Option<Self> {
        let sound =
            (0..=self.on_hand).contains(&self.reserved) && self.sold >= 0 && self.received == self.on_hand + self.sold;
        sound.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_is_not_free_cannot_be_reserved() {
        let level = Level::delivered(2).moved(Movement::Reserve, 2).unwrap();
        assert_eq!(level.available(), 0);
        assert_eq!(level.moved(Movement::Reserve, 1), None);
    }

    #[test]
    fn only_reserved_units_are_sold_and_only_sold_ones_are_taken_back() {
        let level = Level::delivered(5);
        for movement in [Movement::Free, Movement::Sell, Movement::TakeBack] {
            assert_eq!(level.moved(movement, 1), None, "{movement:?}");
        }
        let sold = level.moved(Movement::Reserve, 3).and_then(|l| l.moved(Movement::Sell, 3)).unwrap();
        assert_eq!(sold, Level { on_hand: 2, reserved: 0, sold: 3, received: 5 });
        assert_eq!(sold.moved(Movement::TakeBack, 3), Some(level));
    }
}
