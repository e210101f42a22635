//! Where the instances of a service are, where they come and go: all addresses of a name, looked up every two seconds.

use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc, time::Duration};

use reqwest::Client;
use tokio::{
    net::lookup_host,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::watch;
use crate::{domain::target::Group, workflow::watched::Watched};

const EVERY: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(2);

pub async fn run(group: Group, watched: Arc<Watched>, client: Client, began: Instant, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Ended with this job.
    let mut watching = JoinSet::new();
    let mut knew = true;
    loop {
        let found = async {
            tick.tick().await;
            addresses(&group.host).await
        };
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = found => found,
        };
        while watching.try_join_next().is_some() {}
        match found {
            Ok(at) => {
                for instance in watched.found(&group.service, &at) {
                    watching.spawn(watch::run(instance, client.clone(), began, stop.clone()));
                }
                knew = true;
            }
            // A resolver that is away says nothing of the instances: those that were known are asked on.
            Err(error) if knew => {
                tracing::warn!(service = group.service, host = group.host, %error, "instances cannot be found");
                knew = false;
            }
            Err(_) => {}
        }
    }
}

async fn addresses(host: &str) -> io::Result<BTreeSet<SocketAddr>> {
    timeout(WITHIN, lookup_host(host)).await?.map(Iterator::collect)
}
