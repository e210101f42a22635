//! What can be served with less, and at which level it begins.
//!
//! The table of features is service knowledge; the pattern itself (switches, fallback chains) is
//! [`resilience::degrade`].

use std::collections::BTreeSet;

use resilience::degrade::Feature;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Every feature, and its levels from normal to the last resort.
pub const FEATURES: &[Feature] =
    &[Degrade::RECOMMENDATION, Degrade::COUPON, Degrade::PAYMENT, Degrade::AVAILABILITY, Degrade::ADMISSION];

/// A feature by its name.
#[must_use]
pub fn feature(name: &str) -> Option<Feature> {
    FEATURES.iter().find(|feature| feature.name == name).copied()
}

/// The switches. All normal by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Degrade {
    pub recommendation: RecommendationLevel,
    pub coupon: CouponLevel,
    pub payment: PaymentLevel,
    pub availability: AvailabilityLevel,
    pub admission: AdmissionLevel,
    /// The users that `admission = "allow_list"` lets in.
    pub allow_list: BTreeSet<Uuid>,
    /// The largest order, in minor units, whose payment may be deferred: what the shop is ready to lose by it.
    pub defer_max_minor: i64,
}

impl Default for Degrade {
    fn default() -> Self {
        Self {
            recommendation: RecommendationLevel::default(),
            coupon: CouponLevel::default(),
            payment: PaymentLevel::default(),
            availability: AvailabilityLevel::default(),
            admission: AdmissionLevel::default(),
            allow_list: BTreeSet::new(),
            defer_max_minor: 10_000,
        }
    }
}

/// The level at which each feature begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Levels {
    pub recommendation: RecommendationLevel,
    pub coupon: CouponLevel,
    pub payment: PaymentLevel,
    pub availability: AvailabilityLevel,
    pub admission: AdmissionLevel,
}

impl Levels {
    /// `feature` begins one level below normal, or where it began if that is lower still.
    pub fn ease(&mut self, feature: &str) {
        fn below<L: Copy + PartialEq>(level: &mut L, all: &[L]) {
            if let [normal, next, ..] = *all
                && *level == normal
            {
                *level = next;
            }
        }
        match feature {
            "recommendation" => below(&mut self.recommendation, RecommendationLevel::ALL),
            "coupon" => below(&mut self.coupon, CouponLevel::ALL),
            "payment" => below(&mut self.payment, PaymentLevel::ALL),
            "availability" => below(&mut self.availability, AvailabilityLevel::ALL),
            "admission" => below(&mut self.admission, AdmissionLevel::ALL),
            // Rules are validated to name no other.
            _ => {}
        }
    }

    /// By the names of [`FEATURES`].
    #[must_use]
    pub const fn names(&self) -> [(&'static str, &'static str); 5] {
        [
            ("recommendation", self.recommendation.as_str()),
            ("coupon", self.coupon.as_str()),
            ("payment", self.payment.as_str()),
            ("availability", self.availability.as_str()),
            ("admission", self.admission.as_str()),
        ]
    }
}

impl Degrade {
    /// Live → the last cached answer → a static list → omitted.
    pub const RECOMMENDATION: Feature =
        Feature { name: "recommendation", levels: &["live", "cache", "default", "off"] };
    /// Validated and discounted → full price, settled later → without a coupon.
    pub const COUPON: Feature = Feature { name: "coupon", levels: &["on", "pending", "off"] };
    /// Primary, then backup → backup alone → deferred, up to an amount → refused.
    pub const PAYMENT: Feature = Feature { name: "payment", levels: &["on", "backup_only", "defer", "off"] };
    /// Live → a cached snapshot that says how old it is.
    pub const AVAILABILITY: Feature = Feature { name: "availability", levels: &["live", "cache"] };
    /// Everybody → the listed users alone.
    pub const ADMISSION: Feature = Feature { name: "admission", levels: &["all", "allow_list"] };

    /// The switches alone.
    #[must_use]
    pub const fn switches(&self) -> Levels {
        let Self { recommendation, coupon, payment, availability, admission, .. } = *self;
        Levels { recommendation, coupon, payment, availability, admission }
    }

    /// Each feature with the level that it is to begin at, by the names of [`FEATURES`].
    #[must_use]
    pub const fn levels(&self) -> [(&'static str, &'static str); 5] {
        self.switches().names()
    }
}

/// The levels of one feature: the first is the normal one.
macro_rules! levels {
    ($(#[$doc:meta])* $name:ident { $first:ident = $first_name:literal $(, $level:ident = $level_name:literal)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub enum $name {
            #[default]
            #[serde(rename = $first_name)]
            $first,
            $(#[serde(rename = $level_name)] $level,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[Self::$first $(, Self::$level)*];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_name,
                    $(Self::$level => $level_name,)*
                }
            }
        }
    };
}

levels! { RecommendationLevel { Live = "live", Cache = "cache", Default = "default", Off = "off" } }
levels! { CouponLevel { On = "on", Pending = "pending", Off = "off" } }
levels! { PaymentLevel { On = "on", BackupOnly = "backup_only", Defer = "defer", Off = "off" } }
levels! { AvailabilityLevel { Live = "live", Cache = "cache" } }
levels! { AdmissionLevel { All = "all", AllowList = "allow_list" } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switches_have_the_levels_of_their_features() {
        let of = |name: &str| feature(name).unwrap().levels.to_vec();
        assert_eq!(RecommendationLevel::ALL.iter().map(|l| l.as_str()).collect::<Vec<_>>(), of("recommendation"));
        assert_eq!(CouponLevel::ALL.iter().map(|l| l.as_str()).collect::<Vec<_>>(), of("coupon"));
        assert_eq!(PaymentLevel::ALL.iter().map(|l| l.as_str()).collect::<Vec<_>>(), of("payment"));
        assert_eq!(AvailabilityLevel::ALL.iter().map(|l| l.as_str()).collect::<Vec<_>>(), of("availability"));
        assert_eq!(AdmissionLevel::ALL.iter().map(|l| l.as_str()).collect::<Vec<_>>(), of("admission"));
    }

    #[test]
    fn every_feature_has_a_switch_and_begins_at_normal() {
        let normal: Vec<_> = FEATURES.iter().map(|feature| (feature.name, feature.levels[0])).collect();
        assert_eq!(Degrade::default().levels().to_vec(), normal);
    }

    #[test]
    fn easing_a_feature_lowers_it_by_one_level_and_raises_none() {
        for feature in FEATURES {
            let mut levels = Levels::default();
            levels.ease(feature.name);
            levels.ease(feature.name);
            let lowered: Vec<_> =
                levels.names().into_iter().zip(FEATURES).filter(|((_, level), of)| *level != of.levels[0]).collect();
            assert_eq!(lowered, [((feature.name, feature.levels[1]), feature)]);
        }
        let mut off = Levels { payment: PaymentLevel::Off, ..Levels::default() };
        off.ease("payment");
        assert_eq!(off.payment, PaymentLevel::Off);
    }
}
