use std::{collections::BTreeSet, fs, path::Path};

use super::system::{checkout, dev, turn};

/// Processes whose command line names this checkout's state folder or the system's bootstrap port.
fn running(base: &str) -> BTreeSet<u32> {
    let folder = checkout().join("target/dev").join(base);
    let folder = folder.to_str().unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            [command, environment].iter().any(|text| String::from_utf8_lossy(text).contains(&format!("{folder}/")))
        })
        .collect()
}

/// Everything in the checkout but what is below `target/`.
fn files(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") || path.ends_with(".git") {
            continue;
        }
        found.insert(path.display().to_string());
        if path.is_dir() {
            files(&path, found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_down_nothing_runs_and_nothing_was_written_outside_target() {
    // Beside the other system: two of them run at once.
    let _system = turn().await;
    let other: u16 = std::env::var("DEV_E2E_PORT_BASE").unwrap().parse().unwrap();
    let base = (other + 2_000).to_string();
    let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
    files(&checkout(), &mut before);

    let up = dev(&["up", "--detach", "--port-base", &base]);
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let status = dev(&["status", "--json", "--port-base", &base]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let mut pids: Vec<u64> =
        status["processes"].as_array().unwrap().iter().filter_map(|process| process["pid"].as_u64()).collect();
    pids.extend(["postgres", "redis", "kafka"].iter().filter_map(|store| status["stores"][store]["pid"].as_u64()));
    assert!(pids.len() >= 9, "{status}");

    let down = dev(&["down", "--wipe", "--port-base", &base]);
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
    assert_eq!(running(&base), BTreeSet::new());
    for port in [0, 1, 2, 3, 4, 6, 7, 1_000, 7_352, 8_299, 11_012] {
        let port = base.parse::<u16>().unwrap() + port;
        assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(), "port {port} is taken");
    }
    files(&checkout(), &mut after);
    assert_eq!(before, after, "files outside target/");
}
