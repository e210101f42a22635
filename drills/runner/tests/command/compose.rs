//! `--compose`: what Docker is asked, and what is said when it cannot be. Docker is a script that notes its arguments.

use std::{fs, os::unix::fs::PermissionsExt, process::Output};

use crate::{Checkout, text};

const ON_PROJECT: &str = "compose --project-name order-system-drill --env-file /dev/null --file docker-compose.yml --file drills/compose.yml";

impl Checkout {
    /// Whatever else it is asked, it does; `script` is what it does for that.
    fn with_docker(self, script: &str) -> Self {
        let docker = self.0.join("docker");
        let asked = self.0.join("asked");
        fs::write(&docker, format!("#!/bin/sh\necho \"$@\" >>{0}\nasked={0}\n{script}\n", asked.display())).unwrap();
        fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn composed(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        // The script's own programs are found, and a Docker that is really there is not.
        command.env("PATH", format!("{}:/no/such/folder", self.0.display())).env("AUTH_JWT_SECRET", "somebody's own");
        command.output().unwrap()
    }
}

#[test]
fn without_docker_one_line_says_what_is_missing() {
    let checkout = Checkout::new("no-docker");
    let said = checkout.composed(&["payment-slow", "--compose"]);
    assert_eq!(said.status.code(), Some(2));
    assert_eq!(text(&said.stderr), "error: docker is not installed; --compose needs a Docker engine and Compose v2\n");
}

#[test]
fn an_engine_that_does_not_answer_and_an_image_that_is_not_built_are_told_before_anything_is_begun() {
    for (script, told) in [
        (
            r#"[ "$1" != compose ] || { echo "docker: 'compose' is not a docker command." >&2; exit 1; }"#,
            "error: no Compose v2: docker: 'compose' is not a docker command.\n",
        ),
        (
            r#"[ "$1" != version ] || { echo 'Cannot connect to the Docker daemon.' >&2; exit 1; }"#,
            "error: no Docker engine: Cannot connect to the Docker daemon.\n",
        ),
        (
            r#"[ "$1" != image ] || { echo 'No such image: order-system:dev' >&2; exit 1; }"#,
            "error: no image order-system:dev (docker compose build makes it): No such image: order-system:dev\n",
        ),
    ] {
        let checkout = Checkout::new("no-engine").with_docker(script);
        let said = checkout.composed(&["payment-slow", "--compose"]);
        assert_eq!(said.status.code(), Some(2));
        assert_eq!(text(&said.stderr), told);
        assert!(!checkout.asked().contains("down"), "{}", checkout.asked());
    }
}

#[test]
fn a_drill_starts_a_project_of_its_own_with_its_rules_and_removes_it_with_its_data() {
    let up = r#"case " $* " in *" up "*)
  echo "rules $DRILL_RULES_FILE, secret ${AUTH_JWT_SECRET-none}" >>"$asked"
  while read -r line; do echo "$line" >>"$asked"; done <"$DRILL_RULES/rules.toml"
  echo ' Container order-1  Starting' >&2
  echo 'port is already allocated' >&2
  exit 1;; *" logs "*) echo 'order-1 | last words';; esac"#;
    let checkout = Checkout::new("composed").with_docker(up);
    let said = checkout.composed(&["payment-slow", "--compose"]);
    assert_eq!(said.status.code(), Some(2));
    let log = checkout.0.join("target/dev/drills/compose.log");
    let expected = format!(
        "the system did not start: the containers' last words are in {}: port is already allocated",
        log.display()
    );
    assert!(text(&said.stderr).contains(&expected), "{}", text(&said.stderr));
    assert_eq!(fs::read_to_string(log).unwrap(), "order-1 | last words\n");

    let asked = checkout.asked();
    let down = format!("{ON_PROJECT} down --volumes --remove-orphans --timeout 3");
    let commands: Vec<&str> = asked.lines().filter(|line| line.starts_with("compose --")).collect();
    let (up, logs) = (format!("{ON_PROJECT} up --detach --wait"), format!("{ON_PROJECT} logs --no-color --tail 100"));
    assert_eq!(commands, [&down, &up, &logs, &down]);
    assert!(asked.contains("rules /etc/rules/rules.toml, secret none\n"), "{asked}");
    assert!(asked.contains("[downstream.payment.bulkhead]"), "{asked}");
    assert!(!checkout.0.join("target/dev/drills/under-way.json").exists());
}

#[test]
fn containers_that_a_killed_run_has_left_are_removed_and_told() {
    let checkout = Checkout::new("killed-composed").with_docker("");
    let mark = checkout.0.join("target/dev/drills/under-way.json");
    let left = r#"{"pid":4194305,"started":"1","scenario":"payment-slow","base":8080,"compose":true}"#;
    fs::write(&mark, left).unwrap();
    let said = checkout.composed(&["restore"]);
    assert_eq!(said.status.code(), Some(0));
    assert!(text(&said.stderr).contains("payment-slow was killed"), "{}", text(&said.stderr));
    assert_eq!(checkout.asked(), format!("{ON_PROJECT} down --volumes --remove-orphans --timeout 3\n"));
    assert!(!mark.exists());
}

#[test]
fn a_drill_that_containers_cannot_bear_is_refused_with_the_reason() {
    let checkout = Checkout::new("cannot").with_docker("");
    let said = checkout.composed(&["crash-points", "--compose"]);
    assert_eq!(said.status.code(), Some(2));
    let told = "error: crash-points cannot be run under Compose: it needs 2 replicas of order";
    assert!(text(&said.stderr).starts_with(told), "{}", text(&said.stderr));
    assert!(!checkout.asked().contains(" up "), "{}", checkout.asked());
    let said = checkout.composed(&["payment-slow", "--compose", "--port-base", "9080"]);
    assert!(text(&said.stderr).contains("cannot be used with"), "{}", text(&said.stderr));
}
