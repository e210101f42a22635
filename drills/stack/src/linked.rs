//! The links: one process that stands in front of every hop and can break it on demand.
//!
//! Services are told a hop's address by name, and do not know whether a link or the callee itself listens there.

use std::time::Duration;

use anyhow::Result;
use contracts::Service;
use links::{Protocol, hops};

use crate::{
    account::Account,
    layout::{Layout, our_program},
    ports::Wanted,
    probe::Probe,
    process::{Spec, Stage},
    state::KafkaKind,
};

pub const NAME: &str = "links";

/// Where each hop leads.
pub struct Ways {
    layout: Layout,
    kafka: KafkaKind,
    linked: bool,
}

impl Ways {
    pub fn new(layout: &Layout, kafka: KafkaKind, linked: bool) -> Self {
        Self { layout: layout.clone(), kafka, linked }
    }

    /// The port of a hop's link, where there is one.
    pub fn link(&self, hop: &str) -> Option<u16> {
        let port = hops::port(self.layout.base, hop)?;
        (self.linked && has_link(hop, self.kafka)).then_some(port)
    }

    /// The port that a caller is told: the link's, or the callee's where there is none.
    pub fn to(&self, hop: &str) -> u16 {
        self.link(hop).unwrap_or_else(|| callee(&self.layout, hop))
    }
}

/// Only the embedded broker sends its clients to an address that we choose; any other sends them past a link.
fn has_link(hop: &str, kafka: KafkaKind) -> bool {
    hop != "->kafka" || kafka == KafkaKind::Embedded
}

fn callee(layout: &Layout, hop: &str) -> u16 {
    let service = |service: Service| service.api_port(layout.base, 0);
    match hop {
        "order->inventory" => service(Service::Inventory),
        "order->payment" => service(Service::Payment),
        "order->coupon" => service(Service::Coupon),
        "order->recommendation" => service(Service::Recommendation),
        "payment->provider" => layout.provider_port(false),
        "payment->provider-backup" => layout.provider_port(true),
        "->redis" => layout.redis_port(),
        "->kafka" => layout.kafka_port(),
        _ => layout.postgres_port(),
    }
}

/// Stops after the services, which still need their stores while they stop.
pub fn spec(layout: &Layout, ways: &Ways) -> Result<Spec> {
    let admin = hops::admin_port(layout.base);
    let mut args = vec!["--admin".into(), format!("127.0.0.1:{admin}").into()];
    for (hop, port) in listeners(layout.base, ways.kafka) {
        let option = if hop.protocol == Protocol::Http { "--http" } else { "--tcp" };
        args.push(format!("{option}={}=127.0.0.1:{port}=127.0.0.1:{}", hop.name, callee(layout, hop.name)).into());
    }
    Ok(Spec {
        name: NAME.to_owned(),
        replica: 0,
        stage: Stage::Provider,
        program: our_program(NAME)?,
        args,
        env: Vec::new(),
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: false,
        log: layout.log(NAME, None),
        ready: Probe::Listens(admin),
        patience: Duration::from_secs(20),
        api: Some(admin),
        admin: None,
    })
}

/// The hops that have a link, and where it listens.
pub fn listeners(base: u16, kafka: KafkaKind) -> impl Iterator<Item = (hops::Hop, u16)> {
    let linked = hops::ALL.into_iter().filter(move |hop| has_link(hop.name, kafka));
    linked.filter_map(move |hop| Some((hop, hops::port(base, hop.name)?)))
}

/// Every port that must be free.
pub fn ports(layout: &Layout, kafka: KafkaKind) -> Vec<Wanted> {
    let admin = Wanted { port: hops::admin_port(layout.base), by: NAME.to_owned() };
    let links = listeners(layout.base, kafka).map(|(hop, port)| Wanted { port, by: format!("link {}", hop.name) });
    links.chain([admin]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { base: 8080, dir: "/checkout/target/dev/8080".into() }
    }

    #[test]
    fn every_hop_has_a_callee_of_its_own() {
        let callees: std::collections::BTreeSet<u16> =
            hops::ALL.iter().map(|hop| callee(&layout(), hop.name)).collect();
        assert_eq!(callees.len(), hops::ALL.len());
    }

    #[test]
    fn a_kafka_that_gives_its_own_address_has_no_link() {
        let ways = |kafka| Ways::new(&layout(), kafka, true);
        assert_eq!(ways(KafkaKind::Embedded).link("->kafka"), Some(8508));
        assert_eq!(ways(KafkaKind::External).link("->kafka"), None);
        assert_eq!(ways(KafkaKind::External).link("->redis"), Some(8507));
        assert_eq!(Ways::new(&layout(), KafkaKind::Embedded, false).to("order->payment"), 8082);
    }
}
