//! Which faults are in force on the links, asked once a second where links run.

use std::{sync::Arc, time::Duration};

use reqwest::Client;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::faults::{Listed, names},
    workflow::watched::Watched,
};

const EVERY: Duration = Duration::from_secs(1);

pub async fn run(client: Client, url: String, watched: Arc<Watched>, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asking = async {
            tick.tick().await;
            let answer = client.get(format!("{url}/v1/faults")).timeout(EVERY).send().await?.error_for_status()?;
            answer.json::<Listed>().await
        };
        tokio::select! {
            () = stop.cancelled() => return,
            listed = asking => watched.note_faults(listed.ok().map(|listed| names(&listed.items))),
        }
    }
}
