//! What a system consists of: the processes, their wiring and their ports, before anything is started.

use std::{env, time::Duration};

use anyhow::Result;
use chassis::dev_secrets;
use contracts::{Service, service::REPLICA_STEP};

use crate::{
    account::Account,
    args::{Kafka, Up},
    gateway, kafka,
    layout::{Checkout, Layout, our_program},
    linked::{self, Ways},
    no_guards,
    ports::Wanted,
    postgres::{self, Cluster},
    probe::Probe,
    process::{Spec, Stage},
    redis,
    state::{KafkaKind, Stores},
    token, watching,
};

pub struct System {
    pub layout: Layout,
    pub stores: Stores,
    pub database: Cluster,
    pub database_settings: Vec<(&'static str, String)>,
    pub redis: Option<Spec>,
    /// None where Kafka is not ours to start.
    pub broker: Option<Spec>,
    pub providers: Vec<Spec>,
    /// None with `--direct`.
    pub links: Option<Spec>,
    /// None with `--no-console`.
    pub console: Option<Spec>,
    pub services: Vec<Spec>,
    /// None without `--gateway`.
    pub gateway: Option<Spec>,
}

impl System {
    pub async fn plan(checkout: &Checkout, layout: &Layout, up: &Up) -> Result<Self> {
        let redis = if up.no_redis {
            None
        } else {
            redis::spec(layout.dir.clone(), layout.redis_port(), layout.log(redis::NAME, None))
        };
        let (kafka_kind, kafka_bootstrap) = match &up.kafka {
            Kafka::Embedded => (KafkaKind::Embedded, format!("127.0.0.1:{}", layout.kafka_port())),
            Kafka::External(bootstrap) => (KafkaKind::External, bootstrap.clone()),
            Kafka::Docker => (KafkaKind::Docker, format!("127.0.0.1:{}", kafka::DOCKER_PORT)),
        };
        let stores = Stores {
            postgres_url: postgres::url(layout.postgres_port()),
            // Its address is given even while it is absent: a service then degrades, which is what one wants to see.
            redis_url: redis.as_ref().map(|_| redis::url(layout.redis_port())),
            kafka_bootstrap,
            kafka_kind,
        };
        let ways = Ways::new(layout, kafka_kind, !up.direct);
        let data = layout.postgres_data();
        let unguarded = if up.no_guards { Some(no_guards::write(layout)?) } else { None };
        let console = if up.no_console {
            None
        } else {
            let program = our_program(Service::Console.as_str())?;
            let mut spec = service_spec(layout, &stores, &ways, Service::Console, 0, program);
            watching::wire(&mut spec.env, layout, up);
            Some(spec)
        };
        let mut services = Vec::new();
        for service in Service::ALL {
            let program = our_program(service.as_str())?;
            for k in 0..up.replicas_of(service) {
                let mut spec = service_spec(layout, &stores, &ways, service, k, program.clone());
                if up.gateway && service == Service::Order {
                    gateway::stand_behind(&mut spec.env);
                }
                if !up.no_console {
                    spec.env.push(("CONSOLE_URL", console_url(layout)));
                }
                if let Some(file) = &unguarded {
                    no_guards::wire(&mut spec.env, layout, file, service, k);
                }
                services.push(spec);
            }
        }
        Ok(Self {
            database: Cluster::plan(data, layout.postgres_port(), layout.log(postgres::NAME, None)).await?,
            database_settings: vec![(
                "max_connections",
                max_connections(services.len() + usize::from(console.is_some())).to_string(),
            )],
            redis,
            broker: match kafka_kind {
                KafkaKind::Embedded => Some(kafka::embedded(layout, ways.link("->kafka"))?),
                KafkaKind::External | KafkaKind::Docker => None,
            },
            links: if up.direct { None } else { Some(linked::spec(layout, &ways)?) },
            providers: vec![provider_spec(layout, false)?, provider_spec(layout, true)?],
            console,
            services,
            gateway: if up.gateway {
                Some(gateway::spec(checkout, layout, up.replicas_of(Service::Order))?)
            } else {
                None
            },
            stores,
            layout: layout.clone(),
        })
    }

    /// Every port that must be free.
    pub fn ports(&self) -> Vec<Wanted> {
        let mut wanted = vec![Wanted { port: self.layout.postgres_port(), by: "PostgreSQL".to_owned() }];
        if self.redis.is_some() {
            wanted.push(Wanted { port: self.layout.redis_port(), by: "Redis".to_owned() });
        }
        match self.stores.kafka_kind {
            KafkaKind::Embedded => wanted.push(Wanted { port: self.layout.kafka_port(), by: "Kafka".to_owned() }),
            KafkaKind::Docker => wanted.push(Wanted { port: kafka::DOCKER_PORT, by: "Kafka".to_owned() }),
            KafkaKind::External => {}
        }
        if self.links.is_some() {
            wanted.extend(linked::ports(&self.layout, self.stores.kafka_kind));
        }
        for spec in self.providers.iter().chain(&self.console).chain(&self.services).chain(&self.gateway) {
            wanted.extend(spec.api.map(|port| Wanted { port, by: spec.label() }));
            wanted.extend(spec.admin.map(|port| Wanted { port, by: format!("{} admin", spec.label()) }));
        }
        wanted
    }
}

/// Past the links: a hop that no order takes.
pub fn console_url(layout: &Layout) -> String {
    format!("http://127.0.0.1:{}", Service::Console.api_port(layout.base, 0))
}

/// Each service process has a pool of 2 × cores + 1; the rest is for people and tools.
fn max_connections(processes: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (processes * (2 * cores + 1) + 25).max(100)
}

fn provider_spec(layout: &Layout, backup: bool) -> Result<Spec> {
    let channel = if backup { "backup" } else { "primary" };
    let name = format!("provider-{channel}");
    let port = layout.provider_port(backup);
    let ledger = layout.ledger(&name);
    let listen = format!("127.0.0.1:{port}");
    let mut args: Vec<_> = ["--name", channel, "--listen", listen.as_str(), "--ledger"].map(Into::into).into();
    args.push(ledger.into_os_string());
    // Its first replica: a notice that is not taken is sent again, and the ledger is read in any case.
    let webhooks = Service::Payment.api_port(layout.base, 0);
    let webhooks = format!("http://127.0.0.1:{webhooks}/v1/webhooks/provider?channel={channel}");
    args.extend(["--webhook-url", &webhooks, "--webhook-secret", dev_secrets::WEBHOOK_SECRET].map(Into::into));
    Ok(Spec {
        replica: 0,
        stage: Stage::Provider,
        program: our_program("provider")?,
        args,
        env: Vec::new(),
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: false,
        log: layout.log(&name, None),
        ready: Probe::Listens(port),
        patience: Duration::from_secs(20),
        api: Some(port),
        admin: None,
        name,
    })
}

fn service_spec(
    layout: &Layout,
    stores: &Stores,
    ways: &Ways,
    service: Service,
    k: u16,
    program: std::path::PathBuf,
) -> Spec {
    let (api, admin) = (service.api_port(layout.base, k), service.admin_port(layout.base, k));
    Spec {
        name: service.to_string(),
        replica: k,
        stage: if service == Service::Order { Stage::Edge } else { Stage::Service },
        program,
        args: Vec::new(),
        env: wiring(layout, stores, ways, service, k),
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: false,
        log: layout.log(service.as_str(), Some(k)),
        ready: Probe::Readyz(admin),
        patience: Duration::from_secs(60),
        api: Some(api),
        admin: Some(admin),
    }
}

/// One common set: a service reads what it uses. Whoever calls a service calls its first replica.
fn wiring(layout: &Layout, stores: &Stores, ways: &Ways, service: Service, k: u16) -> Vec<(&'static str, String)> {
    let base = layout.base;
    let local = |port: u16| format!("127.0.0.1:{port}");
    let http = |hop: &str| format!("http://127.0.0.1:{}", ways.to(hop));
    let kafka = ways.link("->kafka").map_or_else(|| stores.kafka_bootstrap.clone(), local);
    let callers: Vec<String> =
        Service::WITH_CONSOLE.iter().map(|s| format!("{s}:{}", dev_secrets::internal_token(s.as_str()))).collect();
    let mut env = vec![
        ("APP_ENV", "dev".to_owned()),
        ("INSTANCE", format!("{service}-{k}")),
        ("API_ADDR", local(service.api_port(base, k))),
        ("ADMIN_ADDR", local(service.admin_port(base, k))),
        ("DATABASE_URL", format!("{}/{service}", postgres::url(ways.to("->postgres")))),
        ("KAFKA_BOOTSTRAP", kafka),
        ("KAFKA_TOPIC_PREFIX", String::new()),
        ("REDIS_URL", redis::url(ways.to("->redis"))),
        ("INVENTORY_URL", http("order->inventory")),
        ("PAYMENT_URL", http("order->payment")),
        ("COUPON_URL", http("order->coupon")),
        ("RECOMMENDATION_URL", http("order->recommendation")),
        ("PROVIDER_PRIMARY_URL", http("payment->provider")),
        ("PROVIDER_BACKUP_URL", http("payment->provider-backup")),
        ("AUTH_JWT_SECRET", token::signing_secret()),
        ("INTERNAL_TOKEN", dev_secrets::internal_token(service.as_str())),
        ("INTERNAL_TOKENS", callers.join(",")),
        ("WEBHOOK_SECRETS", dev_secrets::WEBHOOK_SECRET.to_owned()),
    ];
    if env::var_os("RULES_LAST_KNOWN_GOOD").is_none() {
        env.push(("RULES_LAST_KNOWN_GOOD", layout.last_rules(service.as_str(), k).display().to_string()));
    }
    // The rest of the caller's environment goes through, LOG_LEVEL for example.
    if env::var_os("LOG_FORMAT").is_none() {
        env.push(("LOG_FORMAT", "json".to_owned()));
    }
    env
}

const _: () = assert!(REPLICA_STEP > 7, "a second replica must not meet the providers' ports");

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    fn layout() -> Layout {
        Layout { base: 9080, dir: "/checkout/target/dev/9080".into() }
    }

    fn ways(linked: bool) -> Ways {
        Ways::new(&layout(), KafkaKind::Embedded, linked)
    }

    fn stores() -> Stores {
        Stores {
            postgres_url: postgres::url(16_432),
            redis_url: None,
            kafka_bootstrap: "127.0.0.1:20092".into(),
            kafka_kind: KafkaKind::Embedded,
        }
    }

    #[test]
    fn a_replica_is_wired_to_its_own_ports_and_to_its_siblings_first_replicas() {
        let env: HashMap<_, _> = wiring(&layout(), &stores(), &ways(false), Service::Order, 2).into_iter().collect();
        let expected = [
            ("INSTANCE", "order-2"),
            ("API_ADDR", "127.0.0.1:9280"),
            ("ADMIN_ADDR", "127.0.0.1:10280"),
            ("DATABASE_URL", "postgres://postgres@127.0.0.1:16432/order"),
            ("REDIS_URL", "redis://127.0.0.1:17379"),
            ("KAFKA_BOOTSTRAP", "127.0.0.1:20092"),
            ("PAYMENT_URL", "http://127.0.0.1:9082"),
            ("PROVIDER_BACKUP_URL", "http://127.0.0.1:9087"),
        ];
        for (name, value) in expected {
            assert_eq!(env[name], value, "{name}");
        }
    }

    #[test]
    fn with_links_every_hop_leads_through_one() {
        let env: HashMap<_, _> = wiring(&layout(), &stores(), &ways(true), Service::Order, 0).into_iter().collect();
        let expected = [
            ("INVENTORY_URL", "http://127.0.0.1:9500"),
            ("RECOMMENDATION_URL", "http://127.0.0.1:9503"),
            ("PROVIDER_BACKUP_URL", "http://127.0.0.1:9505"),
            ("DATABASE_URL", "postgres://postgres@127.0.0.1:9506/order"),
            ("REDIS_URL", "redis://127.0.0.1:9507"),
            ("KAFKA_BOOTSTRAP", "127.0.0.1:9508"),
        ];
        for (name, value) in expected {
            assert_eq!(env[name], value, "{name}");
        }
    }

    #[test]
    fn every_caller_is_known_by_a_token_of_its_own() {
        let env: HashMap<_, _> = wiring(&layout(), &stores(), &ways(false), Service::Coupon, 0).into_iter().collect();
        let known: BTreeSet<&str> = env["INTERNAL_TOKENS"].split(',').collect();
        assert_eq!(known.len(), Service::WITH_CONSOLE.len());
        assert!(known.contains(format!("coupon:{}", env["INTERNAL_TOKEN"]).as_str()));
    }

    #[test]
    fn the_database_admits_every_pool() {
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(max_connections(50) >= 50 * (2 * cores + 1));
    }
}
