//! The containers' configuration of Envoy with the addresses of another system in it: one file serves both, so that what is
//! tested on this machine is what runs there.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The configuration, below the checkout.
pub const CONFIGURATION: &str = "deploy/envoy/envoy.yaml";
/// What becomes Envoy, below the checkout. It finds the program in `ENVOY`.
pub const START: &str = "deploy/envoy/start";

/// Behind every line of the configuration that says where something is.
const MARK: &str = " # replaced locally";

/// Where things are on this machine.
pub struct Places {
    pub gateway: u16,
    pub watch: u16,
    /// Of Envoy's administration. With an `@` in front it is no file, and two systems must not share it.
    pub socket: String,
    pub orders: Vec<Instance>,
}

/// The ports of one instance of order.
pub struct Instance {
    pub api: u16,
    pub admin: u16,
}

/// Envoy's program: the one that `ENVOY` names, or the one in the search path.
pub fn program() -> Result<PathBuf> {
    let in_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path).map(|folder| folder.join("envoy")).find(|file| file.is_file())
    };
    match env::var_os("ENVOY").map(PathBuf::from) {
        Some(file) if file.is_file() => Ok(file),
        Some(file) => bail!("ENVOY names {}, and there is no such file", file.display()),
        None => in_path().context("no envoy in the search path, and ENVOY names none"),
    }
}

/// The configuration of the checkout, for these places.
pub fn configuration(checkout: &Path, places: &Places) -> Result<String> {
    let file = checkout.join(CONFIGURATION);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    replaced(&text, places).with_context(|| format!("{} cannot be used", file.display()))
}

/// Every marked line with its addresses replaced; order's once for each instance.
fn replaced(text: &str, places: &Places) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        let Some(line) = line.strip_suffix(MARK) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let named = named(line);
        if named == line {
            bail!("line {} is marked and holds no address that is known", number + 1);
        }
        // A line without an instance's ports is the same for each, and wanted once.
        let times = if named.contains("{api}") { places.orders.len() } else { 1 };
        for instance in places.orders.iter().take(times) {
            out.push_str(&addressed(&named, places, instance));
            out.push('\n');
        }
    }
    Ok(out)
}

/// Names in place of the containers' addresses. In two steps, since one system's port may be another one's replacement.
fn named(line: &str) -> String {
    const NAMES: [(&str, &str); 7] = [
        ("address: 0.0.0.0,", "address: 127.0.0.1,"),
        ("address: order,", "address: 127.0.0.1,"),
        ("port_value: 8000", "port_value: {gateway}"),
        ("port_value: 9000", "port_value: {watch}"),
        ("port_value: 8080", "port_value: {api}"),
        ("port_value: 9080", "port_value: {admin}"),
        ("\"@gateway-admin\"", "\"{socket}\""),
    ];
    NAMES.iter().fold(line.to_owned(), |line, (is, becomes)| line.replace(is, becomes))
}

fn addressed(line: &str, places: &Places, instance: &Instance) -> String {
    line.replace("{gateway}", &places.gateway.to_string())
        .replace("{watch}", &places.watch.to_string())
        .replace("{socket}", &places.socket)
        .replace("{api}", &instance.api.to_string())
        .replace("{admin}", &instance.admin.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        // On this base, order's API is where the containers have its admin port.
        let orders = vec![Instance { api: 9080, admin: 10_080 }, Instance { api: 9180, admin: 10_180 }];
        Places { gateway: 9000, watch: 10_000, socket: "@here".to_owned(), orders }
    }

    fn of_containers() -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CONFIGURATION)).unwrap()
    }

    #[test]
    fn every_address_becomes_a_local_one_and_every_replica_an_endpoint() {
        let text = replaced(&of_containers(), &places()).unwrap();
        for gone in ["0.0.0.0", "address: order,", "8080", "port_value: 8000", "\"@gateway-admin\"", MARK] {
            let left = text.lines().find(|line| line.contains(gone) && !line.trim_start().starts_with('#'));
            assert_eq!(left, None, "{gone}");
        }
        let endpoint = |api: u16, admin: u16| {
            format!(
                "{}- endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {api} }} }}, \
                 health_check_config: {{ port_value: {admin} }} }}",
                " ".repeat(14)
            )
        };
        assert!(text.contains(&format!("{}\n{}\n", endpoint(9080, 10_080), endpoint(9180, 10_180))), "{text}");
        for once in ["port_value: 9000 ", "port_value: 10000 "] {
            assert_eq!(text.matches(once).count(), 1, "{once}");
        }
        assert_eq!(text.matches("\"@here\"").count(), 2);
    }

    #[test]
    fn what_is_not_marked_stays_as_it_is() {
        let before = of_containers();
        let after = replaced(&before, &places()).unwrap();
        let unmarked = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains("socket_address: {") && !line.contains("pipe: {"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(unmarked(&before), unmarked(&after));
    }

    #[test]
    fn a_marked_line_whose_address_is_not_known_is_an_error() {
        let wrong = replaced(&format!("admin:\n  address: elsewhere{MARK}\n"), &places()).unwrap_err();
        assert_eq!(wrong.to_string(), "line 2 is marked and holds no address that is known");
    }
}
