//! A private PostgreSQL: its own data folder, on 127.0.0.1 only, without a Unix socket (whose path would be too long
//! in a deep checkout, and which nobody needs here).

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use contracts::Service;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::process::Command;

use crate::{
    account::Account,
    layout::system_program,
    probe::Probe,
    process::{Spec, Stage},
};

pub const NAME: &str = "postgres";
const OLDEST: u32 = 15;

/// One cluster, not necessarily there yet.
pub struct Cluster {
    bin: PathBuf,
    account: Account,
    pub data: PathBuf,
    pub port: u16,
    pub log: PathBuf,
}

impl Cluster {
    pub async fn plan(data: PathBuf, port: u16, log: PathBuf) -> Result<Self> {
        let account = Account::for_postgres(&data).await?;
        Ok(Self { bin: find_programs().await?, account, data, port, log })
    }

    /// The address without a database, which stands for `postgres`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Makes the data folder if there is none. It is made under another name first: a folder with the right name
    /// is always whole.
    pub async fn make(&self) -> Result<()> {
        if self.data.join("PG_VERSION").is_file() {
            return self.require_same_version();
        }
        let fresh = self.data.with_extension("new");
        remove_tree(&fresh)?;
        fs::create_dir(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
        self.account.own(&fresh)?;
        let (program, mut args) = self.account.wrap(&self.bin.join("initdb"));
        // Not synced: a data folder that a power cut spoils is made again. The database itself does sync.
        args.extend(
            ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8"].map(Into::into),
        );
        args.extend(["--no-instructions".into(), "-D".into(), fresh.clone().into_os_string()]);
        let mut command = Command::new(program);
        self.account.apply(&mut command);
        let made =
            command.args(args).current_dir("/").stdin(Stdio::null()).output().await.context("cannot run initdb")?;
        if !made.status.success() {
            remove_tree(&fresh)?;
            let said = String::from_utf8_lossy(&made.stderr);
            let lines: Vec<&str> = said.lines().filter(|l| l.contains("error") || l.contains("FATAL")).collect();
            bail!("initdb failed: {}", if lines.is_empty() { said.trim().to_owned() } else { lines.join("; ") });
        }
        remove_tree(&self.data)?;
        fs::rename(&fresh, &self.data).with_context(|| format!("cannot make {}", self.data.display()))
    }

    pub fn spec(&self, settings: &[(&str, String)]) -> Spec {
        let (program, mut args) = self.account.wrap(&self.bin.join("postgres"));
        args.extend([OsString::from("-D"), self.data.clone().into_os_string()]);
        let fixed = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", self.port.to_string()),
            ("unix_socket_directories", String::new()),
            ("log_line_prefix", "%m [%p] %d ".to_owned()),
        ];
        for (name, value) in fixed.iter().chain(settings) {
            args.push("-c".into());
            args.push(format!("{name}={value}").into());
        }
        Spec {
            name: NAME.to_owned(),
            replica: 0,
            stage: Stage::Database,
            program,
            args,
            env: Vec::new(),
            extra: Vec::new(),
            account: self.account.clone(),
            hold_stdin: false,
            log: self.log.clone(),
            ready: Probe::Postgres(self.url()),
            patience: Duration::from_secs(30),
            api: None,
            admin: None,
        }
    }

    fn require_same_version(&self) -> Result<()> {
        let made_by = fs::read_to_string(self.data.join("PG_VERSION")).unwrap_or_default();
        let path = self.bin.to_string_lossy();
        // The folder of a Debian package names its version; elsewhere postgres itself will say what is wrong.
        let ours = path.strip_prefix("/usr/lib/postgresql/").and_then(|rest| rest.split('/').next());
        if let Some(ours) = ours.filter(|&ours| ours != made_by.trim()) {
            bail!(
                "{} was made by PostgreSQL {}, and {ours} is installed: ./dev down --wipe removes it",
                self.data.display(),
                made_by.trim()
            );
        }
        Ok(())
    }
}

pub fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}")
}

/// One database a service, the console's among them.
pub async fn create_databases(url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(url).await.context("cannot connect to PostgreSQL")?;
    let present: Vec<String> = sqlx::query_scalar("select datname::text from pg_database")
        .fetch_all(&mut connection)
        .await
        .context("cannot list the databases")?;
    for service in Service::WITH_CONSOLE.iter().filter(|s| !present.iter().any(|p| p == s.as_str())) {
        // A name cannot be a parameter; these are our own.
        sqlx::query(AssertSqlSafe(format!(r#"create database "{service}""#)))
            .execute(&mut connection)
            .await
            .with_context(|| format!("cannot create the database {service}"))?;
    }
    connection.close().await.context("cannot close the connection")
}

/// The newest PostgreSQL: Debian keeps the server's programs out of the search path.
async fn find_programs() -> Result<PathBuf> {
    let mut debian: Vec<u32> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    debian.sort_unstable();
    let packaged =
        debian.iter().rev().map(|v| PathBuf::from(format!("/usr/lib/postgresql/{v}/bin"))).find(|bin| whole(bin));
    let bin = match packaged {
        Some(bin) => bin,
        None => system_program("initdb")
            .and_then(|initdb| initdb.parent().map(Path::to_path_buf))
            .filter(|bin| whole(bin))
            .context("PostgreSQL's server programs (initdb, postgres) are not installed")?,
    };
    let said = Command::new(bin.join("postgres")).arg("--version").output().await.context("cannot run postgres")?;
    let version = major(&String::from_utf8_lossy(&said.stdout));
    match version {
        Some(version) if version < OLDEST => {
            bail!("PostgreSQL {OLDEST} or newer is needed, {} is {version}", bin.display())
        }
        _ => Ok(bin),
    }
}

fn whole(bin: &Path) -> bool {
    bin.join("initdb").is_file() && bin.join("postgres").is_file()
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` is 15.
fn major(version: &str) -> Option<u32> {
    version.split_whitespace().nth(2)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn remove_tree(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_postgres_says() {
        assert_eq!(major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major("something else"), None);
    }
}
