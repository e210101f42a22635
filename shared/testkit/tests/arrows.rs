//! Who may know whom: between crates, between the rooms of a service, and what a copied pattern drags along.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What cargo resolved, without asking a registry.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let said = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(checkout())
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
});

/// Package names by id.
fn names() -> BTreeMap<&'static str, &'static str> {
    let packages = METADATA["packages"].as_array().unwrap();
    packages.iter().map(|p| (p["id"].as_str().unwrap(), p["name"].as_str().unwrap())).collect()
}

/// The names of the packages that each package uses outside its own tests.
static USES: LazyLock<BTreeMap<&'static str, BTreeSet<&'static str>>> = LazyLock::new(|| {
    let names = names();
    let nodes = METADATA["resolve"]["nodes"].as_array().unwrap();
    let outside_tests = |dep: &&'static Value| dep["dep_kinds"].as_array().unwrap().iter().any(|k| k["kind"] != "dev");
    nodes
        .iter()
        .map(|node| {
            let deps = node["deps"].as_array().unwrap().iter().filter(outside_tests);
            (names[node["id"].as_str().unwrap()], deps.map(|d| names[d["pkg"].as_str().unwrap()]).collect())
        })
        .collect()
});

/// The folder below the checkout that each of our own crates lives in.
fn our_crates() -> BTreeMap<&'static str, String> {
    let root = checkout();
    let members: BTreeSet<&str> =
        METADATA["workspace_members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let packages = METADATA["packages"].as_array().unwrap().iter();
    packages
        .filter(|package| members.contains(package["id"].as_str().unwrap()))
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder = manifest.parent().unwrap().strip_prefix(&root).unwrap();
            (package["name"].as_str().unwrap(), folder.to_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn a_crate_is_named_after_its_folder() {
    for (name, folder) in our_crates() {
        assert!(folder.ends_with(&format!("/{name}")), "crate {name} lives in {folder}");
    }
}

#[test]
fn arrows_between_crates_point_one_way() {
    // What each shared crate may use of the others. A service may use all of them, and no service another. Drills look
    // at services from outside, but for the model, which asks their own decisions.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("contracts", &[] as &[&str]),
        ("resilience", &[]),
        ("rules", &["contracts", "resilience"]),
        ("traces", &["contracts"]),
        ("durable", &["contracts", "resilience"]),
        ("events", &["contracts", "durable", "resilience", "traces"]),
        ("cache", &["contracts", "resilience"]),
        ("chassis", &["cache", "contracts", "durable", "resilience", "rules", "traces"]),
        ("testkit", &["cache", "chassis", "contracts", "durable", "events", "resilience", "rules"]),
    ]);
    let ours = our_crates();
    for (name, folder) in &ours {
        for used in USES[name].iter().filter(|used| ours.contains_key(*used)) {
            let fine = match folder.split('/').next().unwrap() {
                "shared" => allowed[name].contains(used),
                "services" => ours[used].starts_with("shared/") && *used != "testkit",
                _ => *used != "testkit" && (*name == "model" || !ours[used].starts_with("services/")),
            };
            assert!(fine, "{name} must not use {used}");
        }
    }
}

#[test]
fn a_pattern_can_be_lifted_without_a_database_a_broker_or_a_web_framework() {
    const HEAVY: [&str; 9] =
        ["sqlx", "sqlx-core", "sqlx-postgres", "rdkafka", "rdkafka-sys", "redis", "actix-web", "reqwest", "hyper"];
    let reaches = |start: &'static str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                open.extend(USES.get(name).into_iter().flatten());
            }
        }
        seen
    };
    for light in ["contracts", "resilience", "rules", "traces"] {
        let dragged: Vec<_> = reaches(light).into_iter().filter(|name| HEAVY.contains(name)).collect();
        assert!(dragged.is_empty(), "{light} drags {dragged:?} along");
    }
    // The test would pass for ever if a name above were misspelt.
    assert!(reaches("durable").contains("sqlx") && reaches("events").contains("rdkafka-sys"));
    assert!(reaches("cache").contains("redis") && reaches("chassis").contains("actix-web"));
    // One crate a heavy dependency.
    for (heavy, owner) in [("rdkafka", "events"), ("redis", "cache")] {
        let users: Vec<_> = our_crates().into_keys().filter(|name| USES[name].contains(heavy)).collect();
        assert_eq!(users, [owner], "{heavy} has more than one owner");
    }
}

/// The rooms of a service from the inside out: each may use what is further in, and itself.
const ROOMS: [(&str, u32); 7] =
    [("domain", 0), ("store", 1), ("downstream", 1), ("workflow", 2), ("http", 3), ("events", 3), ("jobs", 3)];

#[test]
fn arrows_between_the_rooms_of_a_service_point_inwards() {
    let rank = |room: &str| ROOMS.iter().find(|(name, _)| *name == room).map(|(_, rank)| *rank);
    let mut arrows = 0;
    for (service, folder) in our_crates().into_iter().filter(|(_, folder)| folder.starts_with("services/")) {
        let source = checkout().join(folder).join("src");
        for (room, own_rank) in ROOMS {
            for file in rust_files(&source.join(room)) {
                let text = fs::read_to_string(&file).unwrap();
                // Tests at the foot of a file may look anywhere.
                let code = text.split("#[cfg(test)]").next().unwrap();
                for used in rooms_used(code) {
                    arrows += 1;
                    let fine = used == room || rank(&used).is_none_or(|other| other < own_rank);
                    assert!(fine, "{service}: {} must not use crate::{used}", file.display());
                    assert!(
                        used != "app" && used != "config",
                        "{service}: only app may know {used}: {}",
                        file.display()
                    );
                }
            }
        }
    }
    assert!(arrows > 50, "only {arrows} arrows were found: does this test still read the sources?");
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
            false => Vec::new(),
        })
        .collect()
}

/// The first names behind `crate::`, also within `use crate::{…}`.
fn rooms_used(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.insert(first_name(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut start = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && c.is_alphabetic() => {
                            found.insert(first_name(&group[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
                true
            }
        };
    }
    found
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn rooms_are_found_in_every_form_of_use() {
    let code = "use crate::{domain::{A, b::C}, error::E,\n store,\n};\nfn f() -> crate::workflow::W {}";
    let expected: BTreeSet<String> = ["domain", "error", "store", "workflow"].map(str::to_owned).into();
    assert_eq!(rooms_used(code), expected);
}
