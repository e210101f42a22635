//! Where a system's ports and files are.
//!
//! Everything follows from the checkout and the port base, so that several systems run side by side and nothing
//! is written outside `target/dev/`, wherever the build products go.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use contracts::{
    Service,
    service::{ADMIN_OFFSET, DEFAULT_PORT_BASE},
};

/// Kafka lies highest above the base.
pub const MAX_PORT_BASE: u16 = u16::MAX - KAFKA_OFFSET;
/// The gateway lies lowest, and the ports below 1024 are the system's.
pub const MIN_PORT_BASE: u16 = 1_024 + GATEWAY_BELOW;

const PROVIDER_PRIMARY_OFFSET: u16 = 6;
const PROVIDER_BACKUP_OFFSET: u16 = 7;
// At the default base, port 8000.
const GATEWAY_BELOW: u16 = DEFAULT_PORT_BASE - 8_000;
// At the default base these give 15432, 16379 and 19092.
const POSTGRES_OFFSET: u16 = 15_432 - DEFAULT_PORT_BASE;
const REDIS_OFFSET: u16 = 16_379 - DEFAULT_PORT_BASE;
const KAFKA_OFFSET: u16 = 19_092 - DEFAULT_PORT_BASE;

/// The checkout that this command serves.
#[derive(Debug, Clone)]
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// `./dev` names its own folder in `DEV_CHECKOUT`; without it, the current folder counts.
    pub fn find() -> Result<Self> {
        let root = match env::var_os("DEV_CHECKOUT") {
            Some(root) => PathBuf::from(root),
            None => env::current_dir().context("cannot read the current folder")?,
        };
        let root = root.canonicalize().with_context(|| format!("no folder {}", root.display()))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn layout(&self, base: u16) -> Layout {
        Layout { base, dir: self.systems().join(base.to_string()) }
    }

    /// The port bases that have a folder here, running or not.
    pub fn bases(&self) -> Vec<u16> {
        let Ok(entries) = fs::read_dir(self.systems()) else { return Vec::new() };
        let mut bases: Vec<u16> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        bases.sort_unstable();
        bases
    }

    fn systems(&self) -> PathBuf {
        self.root.join("target").join("dev")
    }
}

/// The ports and files of one system.
#[derive(Debug, Clone)]
pub struct Layout {
    pub base: u16,
    pub dir: PathBuf,
}

impl Layout {
    pub const fn postgres_port(&self) -> u16 {
        self.base + POSTGRES_OFFSET
    }

    pub const fn redis_port(&self) -> u16 {
        self.base + REDIS_OFFSET
    }

    pub const fn kafka_port(&self) -> u16 {
        self.base + KAFKA_OFFSET
    }

    pub const fn provider_port(&self, backup: bool) -> u16 {
        self.base + if backup { PROVIDER_BACKUP_OFFSET } else { PROVIDER_PRIMARY_OFFSET }
    }

    pub const fn gateway_port(&self) -> u16 {
        self.base - GATEWAY_BELOW
    }

    pub const fn gateway_admin_port(&self) -> u16 {
        self.gateway_port() + ADMIN_OFFSET
    }

    /// Where clients come in.
    pub const fn entrance(&self, has_gateway: bool) -> u16 {
        if has_gateway { self.gateway_port() } else { Service::Order.api_port(self.base, 0) }
    }

    /// What the gateway is started with.
    pub fn gateway_file(&self) -> PathBuf {
        self.dir.join("gateway.yaml")
    }

    pub fn postgres_data(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    pub fn ledger(&self, provider: &str) -> PathBuf {
        self.dir.join(format!("{provider}.jsonl"))
    }

    pub fn state_file(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    pub fn lock_file(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Where a service keeps the last rules that were in force.
    pub fn last_rules(&self, service: &str, replica: u16) -> PathBuf {
        self.dir.join("rules").join(format!("{service}-{replica}.toml"))
    }

    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Services have replicas, so their number is part of the name; stores and providers have none.
    pub fn log(&self, name: &str, replica: Option<u16>) -> PathBuf {
        self.logs().join(replica.map_or_else(|| format!("{name}.log"), |k| format!("{name}-{k}.log")))
    }
}

/// A program of ours: beside this one, or in the folder that `DEV_BIN_DIR` names.
pub fn our_program(name: &str) -> Result<PathBuf> {
    let dir = match env::var_os("DEV_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => env::current_exe()
            .context("cannot find the folder of this program")?
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default(),
    };
    let program = dir.join(name);
    if !program.is_file() {
        bail!("{} is not built: run ./dev up", program.display());
    }
    Ok(program)
}

/// A program of the system, from the search path.
pub fn system_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(base: u16) -> Layout {
        Layout { base, dir: PathBuf::from("/checkout/target/dev").join(base.to_string()) }
    }

    #[test]
    fn the_default_base_gives_the_published_ports() {
        let at = layout(DEFAULT_PORT_BASE);
        assert_eq!((at.provider_port(false), at.provider_port(true)), (8086, 8087));
        assert_eq!((at.postgres_port(), at.redis_port(), at.kafka_port()), (15_432, 16_379, 19_092));
        assert_eq!((at.gateway_port(), at.gateway_admin_port()), (8_000, 9_000));
        assert_eq!((at.entrance(true), at.entrance(false)), (8_000, 8_080));
    }

    #[test]
    fn the_highest_and_the_lowest_base_still_have_all_their_ports() {
        assert_eq!(layout(MAX_PORT_BASE).kafka_port(), u16::MAX);
        assert_eq!(layout(MIN_PORT_BASE).gateway_port(), 1_024);
    }

    #[test]
    fn logs_are_named_by_service_and_replica() {
        let at = layout(8080);
        assert!(at.log("order", Some(1)).ends_with("8080/logs/order-1.log"));
        assert!(at.log("postgres", None).ends_with("8080/logs/postgres.log"));
    }
}
