//! Whether the image is as new as what it is built from. A drill of an older one judges code that is not there any more,
//! which is worth a line; it may be meant, so it is no reason to refuse.

use std::{fs, path::Path};

use chrono::{DateTime, Utc};

use super::{
    command::apart,
    docker::{self, docker},
};

/// What is built by hand, since it takes longer than any drill.
pub const IMAGE: &str = "order-system:dev";

/// What goes into it.
const BUILT_FROM: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "migrations",
    "services",
    "shared",
    "drills",
    "deploy/Dockerfile",
    ":(exclude)drills/scenarios",
];

/// The line, if there is something to say. A checkout without git says nothing.
pub async fn out_of_date(checkout: &Path) -> Option<String> {
    let created = docker::run(docker(&["image", "inspect", "--format", "{{.Created}}", IMAGE])).await.ok()?;
    let (created, changed) = (time(&created)?, changed(checkout).await?);
    (changed > created).then(|| {
        format!(
            "the image {IMAGE} is of {}, and what it is built from of {}: `docker compose build` renews it",
            created.format("%F %T"),
            changed.format("%F %T")
        )
    })
}

/// When the newest of it was committed or, if it is not yet, written.
async fn changed(checkout: &Path) -> Option<DateTime<Utc>> {
    let committed = time(&git(checkout, &["log", "-1", "--format=%cI"]).await?)?;
    // Each entry is a status of two letters, a space and the path.
    let uncommitted = git(checkout, &["status", "--porcelain", "-z", "--no-renames"]).await?;
    let written = uncommitted.split('\0').filter_map(|entry| {
        let modified = fs::metadata(checkout.join(entry.get(3..)?)).and_then(|found| found.modified());
        modified.ok().map(DateTime::<Utc>::from)
    });
    written.chain([committed]).max()
}

async fn git(checkout: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = apart(Path::new("git"));
    command.arg("-C").arg(checkout).args(arguments).arg("--").args(BUILT_FROM);
    docker::run(command).await.ok()
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text.trim()).ok().map(|at| at.to_utc())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn what_is_built_from_changes_with_a_commit_and_with_a_file_that_is_not_committed() {
        let folder = std::env::temp_dir().join(format!("image-{}", std::process::id()));
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            let identity = ["-c", "user.name=n", "-c", "user.email=n@localhost"];
            command.arg("-C").arg(&folder).args(identity).args(arguments);
            command.env("GIT_COMMITTER_DATE", "2020-05-01T00:00:00Z").output().unwrap()
        };
        fs::create_dir_all(folder.join("services")).unwrap();
        git(&["init", "--quiet"]);
        assert_eq!(changed(&folder).await, None, "nothing is committed");
        fs::write(folder.join("services/a.rs"), "one").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "one"]);
        assert_eq!(changed(&folder).await, time("2020-05-01T00:00:00Z"));
        fs::write(folder.join("README.md"), "not in it").unwrap();
        assert_eq!(changed(&folder).await, time("2020-05-01T00:00:00Z"));
        fs::write(folder.join("services/b.rs"), "two").unwrap();
        assert!(changed(&folder).await > time("2020-05-01T00:00:00Z"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(changed(&folder).await, None);
    }
}
