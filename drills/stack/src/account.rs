//! As whom PostgreSQL runs.
//!
//! It refuses to run as root. In a container or on a build machine root is often all there is, so root hands it to
//! the system's `postgres` user, if that user can reach the data folder; else to a user namespace, in which the
//! process believes to be unprivileged while its files stay root's.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::layout::system_program;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// Ours.
    Same,
    Other {
        uid: u32,
        gid: u32,
    },
    /// The program is `unshare`, and its arguments name the real one.
    Namespace,
}

impl Account {
    pub fn apply(&self, command: &mut Command) {
        if let Self::Other { uid, gid } = *self {
            command.uid(uid).gid(gid);
        }
    }

    /// Chooses for a data folder, which may exist already and then decides.
    pub async fn for_postgres(data: &Path) -> Result<Self> {
        let us = rustix::process::geteuid().as_raw();
        let owner = fs::metadata(data).ok().map(|m| m.uid());
        if us != 0 {
            if let Some(owner) = owner.filter(|&owner| owner != us) {
                bail!("{} belongs to user {owner}: run as that user, or remove it", data.display());
            }
            return Ok(Self::Same);
        }
        let parent = data.parent().unwrap_or(data);
        let system_user = passwd_entry("postgres", &fs::read_to_string("/etc/passwd").unwrap_or_default());
        if let Some((uid, gid)) = system_user
            && owner.is_none_or(|owner| owner == uid)
            && reachable(parent, uid, gid)
        {
            return Ok(Self::Other { uid, gid });
        }
        if owner.is_none_or(|owner| owner == 0) && namespaces_work().await {
            return Ok(Self::Namespace);
        }
        bail!(
            "PostgreSQL refuses to run as root, no user `postgres` can reach {}, and user namespaces do not work \
             here: run ./dev as another user",
            parent.display()
        )
    }

    /// A folder that this account may fill.
    pub fn own(&self, dir: &Path) -> Result<()> {
        if let Self::Other { uid, gid } = *self {
            chown(dir, Some(uid), Some(gid)).with_context(|| format!("cannot give {} to user {uid}", dir.display()))?;
        }
        Ok(())
    }

    /// The program and leading arguments that run `program` as this account.
    pub fn wrap(&self, program: &Path) -> (std::path::PathBuf, Vec<std::ffi::OsString>) {
        match self {
            Self::Namespace => {
                let mut args: Vec<std::ffi::OsString> = NAMESPACE.iter().map(Into::into).collect();
                args.push("--".into());
                args.push(program.into());
                ("unshare".into(), args)
            }
            Self::Same | Self::Other { .. } => (program.into(), Vec::new()),
        }
    }
}

// Any number but 0 will do: inside, root's files appear to be this user's.
const NAMESPACE: [&str; 3] = ["--user", "--map-user=1000", "--map-group=1000"];

async fn namespaces_work() -> bool {
    if system_program("unshare").is_none() {
        return false;
    }
    let tried = Command::new("unshare")
        .args(NAMESPACE)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    tried.is_ok_and(|status| status.success())
}

fn passwd_entry(user: &str, passwd: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(user))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Whether the user may pass through the folder and all above it.
fn reachable(dir: &Path, uid: u32, gid: u32) -> bool {
    dir.ancestors().all(|dir| {
        let Ok(meta) = fs::metadata(dir) else { return false };
        let mode = meta.permissions().mode();
        let passes = match (meta.uid() == uid, meta.gid() == gid) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        mode & passes != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_postgres_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres-exporter:x:7:8::/:/x\npostgres:x:101:104::/var:/bin/bash\n";
        assert_eq!(passwd_entry("postgres", passwd), Some((101, 104)));
        assert_eq!(passwd_entry("nobody", passwd), None);
    }

    #[test]
    fn a_folder_below_a_private_one_cannot_be_reached_by_a_stranger() {
        let private = std::env::temp_dir().join(format!("reach-{}", std::process::id()));
        let inner = private.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
        let meta = fs::metadata(&private).unwrap();
        assert!(!reachable(&inner, meta.uid() + 1, meta.gid() + 1));
        fs::set_permissions(&private, fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(reachable(&inner, meta.uid() + 1, meta.gid() + 1), reachable(&std::env::temp_dir(), 1, 1));
        fs::remove_dir_all(&private).unwrap();
    }
}
