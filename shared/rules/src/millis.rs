//! Durations as whole milliseconds, in fields whose key ends in `_ms`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u32::deserialize(deserializer).map(|ms| Duration::from_millis(u64::from(ms)))
}

/// The same for a list of fixed length.
pub mod list {
    use super::{Deserialize, Deserializer, Duration, Serializer};
    use serde::Serialize;

    pub fn serialize<S: Serializer, const N: usize>(value: &[Duration; N], serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).as_slice().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(deserializer: D) -> Result<[Duration; N], D::Error> {
        let list = Vec::<u32>::deserialize(deserializer)?;
        let list: Vec<_> = list.into_iter().map(|ms| Duration::from_millis(u64::from(ms))).collect();
        let length = list.len();
        list.try_into().map_err(|_| serde::de::Error::invalid_length(length, &format!("{N} durations").as_str()))
    }
}
