//! What the console is told of the system around it: whom it watches, whom it asks, and where faults are set.
//!
//! All of it goes past the links. Whoever has broken a hop has to see what comes of it, and to mend it again.

use contracts::Service;

use crate::{args::Up, layout::Layout, postgres};

/// Replaces what the services are told with the same names.
pub fn wire(env: &mut Vec<(&'static str, String)>, layout: &Layout, up: &Up) {
    let told = [
        ("DATABASE_URL", format!("{}/{}", postgres::url(layout.postgres_port()), Service::Console)),
        ("CONSOLE_TARGETS", targets(layout, up)),
        ("ORDER_URL", first(layout, Service::Order)),
        ("PAYMENT_URL", first(layout, Service::Payment)),
        ("COUPON_URL", first(layout, Service::Coupon)),
    ];
    let links = (!up.direct).then(|| ("LINKS_ADMIN_URL", local(links::hops::admin_port(layout.base))));
    for (name, value) in told.into_iter().chain(links) {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
}

/// Every replica by its admin port.
fn targets(layout: &Layout, up: &Up) -> String {
    let of = |service: Service| {
        (0..up.replicas_of(service))
            .map(move |k| format!("{service}-{k}={}", local(service.admin_port(layout.base, k))))
    };
    Service::ALL.into_iter().flat_map(of).collect::<Vec<_>>().join(",")
}

fn first(layout: &Layout, service: Service) -> String {
    local(service.api_port(layout.base, 0))
}

fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn wired(args: &[&str]) -> HashMap<&'static str, String> {
        let up = match Cli::try_parse_from(["dev", "up"].iter().chain(args)).unwrap().command {
            Command::Up(up) => up,
            other => panic!("{other:?}"),
        };
        let layout = Layout { base: 9080, dir: "/checkout/target/dev/9080".into() };
        let mut env = vec![("DATABASE_URL", "through a link".to_owned()), ("APP_ENV", "dev".to_owned())];
        wire(&mut env, &layout, &up);
        assert_eq!(env.iter().filter(|(name, _)| *name == "DATABASE_URL").count(), 1);
        env.into_iter().collect()
    }

    #[test]
    fn every_replica_is_watched_and_nothing_goes_through_a_link() {
        let env = wired(&["--replicas", "order=2"]);
        assert_eq!(env["DATABASE_URL"], "postgres://postgres@127.0.0.1:16432/console");
        let targets: Vec<_> = env["CONSOLE_TARGETS"].split(',').collect();
        assert_eq!(
            targets[..3],
            ["order-0=http://127.0.0.1:10080", "order-1=http://127.0.0.1:10180", "inventory-0=http://127.0.0.1:10081"]
        );
        assert_eq!(targets.len(), 6);
        assert_eq!(
            (env["ORDER_URL"].as_str(), env["PAYMENT_URL"].as_str()),
            ("http://127.0.0.1:9080", "http://127.0.0.1:9082")
        );
        assert_eq!(env["LINKS_ADMIN_URL"], "http://127.0.0.1:9474");
        assert_eq!(env["APP_ENV"], "dev");
    }

    #[test]
    fn without_links_no_fault_is_offered() {
        assert!(!wired(&["--direct"]).contains_key("LINKS_ADMIN_URL"));
    }
}
