//! What `drills/compose.yml` must say of the system of `docker-compose.yml`, read without Docker.

use std::{collections::BTreeMap, fs, path::Path};

use contracts::{Service, service::DEFAULT_PORT_BASE};
use links::{Protocol, hops};

use super::{Stack, compose, docker};

const SYSTEM: &str = "docker-compose.yml";
const LINKED: &str = "drills/compose.yml";

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

/// A part of a file. Read by its lines, which is as much of YAML as these files need: what belongs to a key stands
/// behind it, or below it and further in.
#[derive(Clone)]
struct Part(Vec<String>);

impl Part {
    fn file(file: &str) -> Self {
        let text = text(file);
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        Self(lines.map(str::to_owned).collect())
    }

    /// What belongs to a key of this part itself; nothing where there is no such key.
    fn of(&self, key: &str) -> Self {
        let mut found = Vec::new();
        let own = self.0.first().map_or(0, |line| indent(line));
        let mut lines =
            self.0.iter().skip_while(|line| indent(line) != own || split(line).is_none_or(|(k, _)| k != key));
        if let Some((_, behind)) = lines.next().and_then(|line| split(line)) {
            found.extend((!behind.is_empty() && !behind.starts_with('&')).then(|| behind.to_owned()));
            found.extend(lines.take_while(|line| indent(line) > own).cloned());
        }
        Self(found)
    }

    fn keys(&self) -> Vec<String> {
        let own = self.0.first().map_or(0, |line| indent(line));
        let lines = self.0.iter().filter(|line| indent(line) == own);
        lines.filter_map(|line| split(line)).map(|(key, _)| key.to_owned()).collect()
    }

    /// A value behind its key.
    fn value(&self, key: &str) -> Option<String> {
        self.of(key).0.pop()
    }

    /// The items of a list, in either of its forms.
    fn items(&self) -> Vec<String> {
        let bare = |item: &str| item.trim().trim_matches('"').to_owned();
        let items = self.0.iter().flat_map(|line| match line.trim().strip_prefix("- ") {
            Some(item) => vec![bare(item)],
            None => line.trim().trim_matches(['[', ']']).split(", ").map(bare).collect(),
        });
        items.collect()
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn split(line: &str) -> Option<(&str, &str)> {
    let (key, behind) = line.trim().split_once(':')?;
    (behind.is_empty() || behind.starts_with(' ')).then_some((key, behind.trim()))
}

/// The services of a file by their names.
fn services(file: &str) -> BTreeMap<String, Part> {
    let all = Part::file(file).of("services");
    all.keys().into_iter().map(|name| (name.clone(), all.of(&name))).collect()
}

/// What a service is told, together with what all are.
fn environment(file: &str, service: Service) -> BTreeMap<String, String> {
    let file = Part::file(file);
    let own = file.of("services").of(service.as_str()).of("environment");
    let common = file.of("x-environment");
    let pairs = [common, own]
        .map(|part| part.keys().into_iter().map(move |key| (key.clone(), part.value(&key))).collect::<Vec<_>>());
    pairs.concat().into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Where an address leads: `http://payment:8082` to `payment:8082`.
fn host_and_port(address: &str) -> Option<&str> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let place = rest.split('/').next()?;
    let (host, port) = place.rsplit_once(':')?;
    (port.parse::<u16>().is_ok() && host != "0.0.0.0").then_some(place)
}

/// Each link by where it is found: its name, and where it leads.
fn links() -> BTreeMap<String, (String, String)> {
    let arguments = services(LINKED)["links"].of("command").items();
    let hops =
        arguments.into_iter().filter(|argument| argument.starts_with("--http=") || argument.starts_with("--tcp="));
    let read = |argument: String| {
        let [option, name, listen, upstream] = argument.splitn(4, '=').collect::<Vec<_>>()[..] else {
            panic!("{argument}")
        };
        let spoken = if option == "--http" { Protocol::Http } else { Protocol::Tcp };
        assert_eq!(hops::find(name).unwrap().protocol, spoken, "{name}");
        (listen.replace("0.0.0.0", "links"), (name.to_owned(), upstream.to_owned()))
    };
    hops.map(read).collect()
}

/// Starts only when it is asked for.
fn has_a_profile(service: &Part) -> bool {
    !service.of("profiles").0.is_empty()
}

#[test]
fn every_hop_has_its_link_on_its_own_port() {
    let links = links();
    assert_eq!(links.len(), hops::ALL.len());
    for hop in hops::ALL {
        let port = hops::port(DEFAULT_PORT_BASE, hop.name).unwrap();
        assert_eq!(links[&format!("links:{port}")].0, hop.name);
    }
}

#[test]
fn every_address_that_a_service_has_leads_through_a_link_to_where_it_led_before() {
    let links = links();
    let mut seen = 0;
    for service in Service::ALL {
        let now = environment(LINKED, service);
        for (name, address) in environment(SYSTEM, service) {
            let Some(led_to) = host_and_port(&address) else { continue };
            // Who asks for the rules asks past the links: no order takes that hop.
            if name == "CONSOLE_URL" {
                continue;
            }
            let address = now.get(&name).unwrap_or_else(|| panic!("{service}: {name} has no link"));
            let (link, leads_to) = &links[host_and_port(address).unwrap()];
            // The broker's listener for those who come through the link is another one.
            let led_to = if link == "->kafka" { "kafka:9094" } else { led_to };
            assert_eq!(leads_to, led_to, "{service}: {name}");
            let caller = link.split("->").next().unwrap();
            assert!(caller.is_empty() || caller == service.as_str(), "{service}: {name} is the hop of {caller}");
            seen += 1;
        }
    }
    assert_eq!(seen, 5 + 5 + 3 + 4 + 2, "databases, Kafka, Redis, and whom order and payment call");
}

#[test]
fn kafka_gives_those_who_come_through_the_link_an_address_that_leads_through_it() {
    let of = |file: &str, name: &str| -> Vec<String> {
        let value = services(file)["kafka"].of("environment").value(name).unwrap();
        value.split(',').map(str::to_owned).collect()
    };
    for (name, added) in [
        ("KAFKA_LISTENERS", "LINKED://0.0.0.0:9094"),
        ("KAFKA_ADVERTISED_LISTENERS", "LINKED://links:8508"),
        ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "LINKED:PLAINTEXT"),
    ] {
        let (with, without): (Vec<_>, Vec<_>) = of(LINKED, name).into_iter().partition(|listener| listener == added);
        assert_eq!((with.len(), without), (1, of(SYSTEM, name)), "{name} has {added}, and otherwise what it had");
    }
}

#[test]
fn what_a_drill_asks_is_published_where_it_asks_and_on_this_machine_alone() {
    let both = [services(SYSTEM), services(LINKED)];
    let started = both.iter().flat_map(BTreeMap::values).filter(|service| !has_a_profile(service));
    let published: Vec<String> = started.flat_map(|service| service.of("ports").items()).collect();
    let stack = Stack::nowhere(DEFAULT_PORT_BASE);
    let mut asked = vec![stack.api(Service::Order, 0), stack.links()];
    asked.extend(["primary", "backup"].map(|channel| stack.provider(channel)));
    asked.extend(Service::ALL.map(|service| stack.admin(service, 0)));
    // PostgreSQL and Kafka, for the oracle.
    asked.extend(["127.0.0.1:15432", "127.0.0.1:19092"].map(str::to_owned));
    // The gateway and the console, which are always there.
    asked.extend(["127.0.0.1:8000", "127.0.0.1:8085"].map(str::to_owned));
    let mut places: Vec<&str> = asked.iter().map(|address| address.trim_start_matches("http://")).collect();
    let mut found: Vec<&str> = published.iter().map(|port| port.rsplit_once(':').unwrap().0).collect();
    places.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, places);
}

#[test]
fn of_the_system_alone_only_the_gateway_and_the_console_are_published_and_only_on_this_machine() {
    let started = services(SYSTEM).into_iter().filter(|(_, service)| !has_a_profile(service));
    let published = started.map(|(name, service)| (name, service.of("ports").items()));
    let published: Vec<_> = published.filter(|(_, ports)| !ports.is_empty()).collect();
    let expected = [("console", "127.0.0.1:8085:8085"), ("envoy", "127.0.0.1:8000:8000")];
    assert_eq!(published, expected.map(|(name, port)| (name.to_owned(), vec![port.to_owned()])));
}

#[test]
fn all_containers_together_have_less_than_two_gibibytes() {
    let (file, all) = (Part::file(SYSTEM), services(SYSTEM));
    let started = all.values().filter(|service| !has_a_profile(service));
    let limit = |service: &Part| {
        let shared =
            service.value("<<").and_then(|name| file.of(&format!("x-{}", name.strip_prefix('*')?)).value("mem_limit"));
        let limit = service.value("mem_limit").or(shared).unwrap();
        limit.strip_suffix('m').unwrap().parse::<u32>().unwrap()
    };
    let sum: u32 = started.map(limit).sum();
    assert!(sum < 2_048, "{sum} MiB");
    // And the file says so itself.
    let told = format!("Memory limits add up to {:.2} GiB", f64::from(sum) / 1_024.0);
    assert!(text(SYSTEM).contains(&told), "{told}");
}

#[test]
fn a_service_starts_after_the_links_and_takes_the_rules_that_the_drill_writes() {
    let (common, services) = (Part::file(LINKED).of("x-service"), services(LINKED));
    assert_eq!(common.of("depends_on").value("links").unwrap(), "{ condition: service_healthy }");
    let mounted = common.of("volumes").items().remove(0);
    let folder = mounted.strip_prefix("${DRILL_RULES:-drill-rules}:").unwrap().strip_suffix(":ro").unwrap();
    assert_eq!(Path::new(compose::RULES_INSIDE).parent(), Some(Path::new(folder)));
    for service in Service::ALL {
        assert_eq!(services[service.as_str()].value("<<").unwrap(), "*service");
        assert_eq!(environment(LINKED, service)["RULES_FILE"], "${DRILL_RULES_FILE:-}");
    }
}

#[test]
fn every_container_is_known_to_the_runner() {
    let mut named: Vec<String> = services(SYSTEM).into_keys().chain(["links".to_owned()]).collect();
    // A profile is what has to be asked for.
    let asked_for =
        |name: &String| [SYSTEM, LINKED].iter().any(|file| services(file).get(name).is_some_and(has_a_profile));
    named.retain(|name| !asked_for(name));
    named.sort();
    let mut known: Vec<&str> = compose::containers().collect();
    known.sort_unstable();
    assert_eq!(known, named);
}

#[test]
fn the_files_read_nothing_of_the_environment_that_could_come_between_a_drill_and_its_system() {
    // Among them where traces go: who watches a drill does not change it.
    const TAKEN_OVER: [&str; 4] = ["SERVICE_CPUS", "DRILL_RULES", "DRILL_RULES_FILE", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    for file in [SYSTEM, LINKED] {
        let text = text(file);
        let names = text.split("${").skip(1).map(|rest| rest.split([':', '}', '-']).next().unwrap());
        for name in names {
            assert!(docker::NOT_TAKEN_OVER.contains(&name) || TAKEN_OVER.contains(&name), "{file}: {name}");
        }
    }
}

#[test]
fn the_image_holds_every_program_that_a_container_runs() {
    let dockerfile = text("deploy/Dockerfile");
    let (_, shipped) = dockerfile.split_once("&& cp ").unwrap();
    let shipped: Vec<&str> = shipped.lines().next().unwrap().split(' ').collect();
    let ours = Service::WITH_CONSOLE.map(Service::as_str).into_iter().chain(["provider-primary", "provider-backup"]);
    let all = services(SYSTEM);
    let mut programs: Vec<String> = ours.map(|name| all[name].of("command").items().remove(0)).collect();
    programs.push(services(LINKED)["links"].of("command").items().remove(0));
    for program in programs {
        assert!(shipped.contains(&program.as_str()), "{program}");
    }
}
