//! How the payment provider behaves. What a drill leaves out is as at its start.

use anyhow::{Context, Result};
use contracts::provider::{Behaviour, SetBehaviour};
use reqwest::Client;

use super::Faults;
use crate::{scenario::CHANNELS, stack::Stack};

/// Asks a channel to behave so, and says how it then does.
pub async fn put(client: &Client, stack: &Stack, channel: &str, wanted: &toml::Table) -> Result<Behaviour> {
    let url = format!("{}/admin/behaviour", stack.provider(channel));
    let answer = client.put(url).json(wanted).send().await.context("the provider does not answer")?;
    answer.error_for_status().context("the provider refused to behave so")?.json().await.context("not a behaviour")
}

impl Faults {
    pub(super) async fn behave_as_normal(&self, channel: &str) -> Result<()> {
        let normal = self.normal.provider.get(channel).cloned().unwrap_or_default();
        put(&self.client, &self.stack, channel, &normal).await.map(drop)
    }

    /// The channels that do not behave as they do when nothing is broken.
    pub(super) async fn misbehaving(&self) -> Vec<String> {
        let mut left = Vec::new();
        for channel in CHANNELS {
            match self.behaves_as_normal(channel).await {
                Ok(true) => {}
                Ok(false) => left.push(format!("the provider's {channel} channel still behaves as in the drill")),
                Err(error) => left.push(format!("{error:#}")),
            }
        }
        left
    }

    async fn behaves_as_normal(&self, channel: &str) -> Result<bool> {
        let url = format!("{}/admin/behaviour", self.stack.provider(channel));
        let answer = self.client.get(url).send().await.context("the provider does not answer")?;
        let now: Behaviour = answer.error_for_status()?.json().await.context("not a behaviour")?;
        let normal = self.normal.provider.get(channel).cloned().unwrap_or_default();
        let normal: SetBehaviour = normal.try_into()?;
        Ok(now == normal.over(&Behaviour::default()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use provider::{ProviderConfig, RunningProvider, StartError};

    use super::*;
    use crate::scenario::{FaultSpec, StackSpec};

    /// Both channels, where a system with this port base has them; nothing where one of the ports is taken. To look
    /// first and listen then would not do: a child that another test is about to start holds what was looked at.
    async fn channels(base: u16) -> Option<[RunningProvider; 2]> {
        let one = async |offset: u16, name: &str| {
            let file = std::env::temp_dir().join(format!("behaviour-{}-{name}.jsonl", std::process::id()));
            let config = ProviderConfig::local(name, file);
            let listen = ([127, 0, 0, 1], base + offset).into();
            match provider::start(ProviderConfig { listen, ..config }).await {
                Err(StartError::Listen { .. }) => None,
                started => Some(started.unwrap()),
            }
        };
        Some([one(6, "primary").await?, one(7, "backup").await?])
    }

    /// At the first port base where both can be.
    async fn running_channels() -> (u16, [RunningProvider; 2]) {
        for base in (24_000..25_000).step_by(10) {
            if let Some(running) = channels(base).await {
                return (base, running);
            }
        }
        panic!("no two free ports among a hundred pairs");
    }

    #[tokio::test]
    async fn a_provider_that_misbehaved_is_brought_back_to_what_is_normal_in_this_drill_and_looked_at() {
        let (base, _running) = running_channels().await;
        let normal = StackSpec {
            provider: toml::from_str("primary = { latency_ms = 20, at_once = 3 }").unwrap(),
            ..StackSpec::default()
        };
        let stack = Stack::nowhere(base);
        let mut faults = Faults::new(Client::new(), stack.clone(), normal, PathBuf::new(), 1);
        assert_eq!(faults.misbehaving().await.len(), 1, "the primary does not yet behave as it should");
        faults.settle_in().await.unwrap();
        assert_eq!(faults.misbehaving().await, [""; 0]);

        let fault: FaultSpec =
            toml::from_str("at = '1s'\nfor = '1s'\nprovider = 'primary'\nbehaviour = { error_ratio = 1.0 }").unwrap();
        faults.begin(0, &fault).await.unwrap();
        assert!(faults.misbehaving().await[0].contains("primary"));
        faults.end(0).await.unwrap();
        assert_eq!(faults.misbehaving().await, [""; 0]);
        let as_normal = Behaviour { latency_ms: 20, at_once: 3, ..Behaviour::default() };
        let now = Client::new().get(format!("{}/admin/behaviour", stack.provider("primary"))).send().await.unwrap();
        assert_eq!(now.json::<Behaviour>().await.unwrap(), as_normal);
    }
}
