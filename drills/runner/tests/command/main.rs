//! The real binary, before and after a run: what it lists, what it refuses, what it clears away.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod compose;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A checkout with the real scenarios and a stack that only notes what it is asked.
struct Checkout(PathBuf);

impl Checkout {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("drills/scenarios")).unwrap();
        fs::create_dir_all(root.join("target/dev/drills")).unwrap();
        for file in scenarios() {
            fs::copy(&file, root.join("drills/scenarios").join(file.file_name().unwrap())).unwrap();
        }
        let stack = root.join("stack");
        fs::write(&stack, format!("#!/bin/sh\necho \"$@\" >>{}\n", root.join("asked").display())).unwrap();
        fs::set_permissions(&stack, fs::Permissions::from_mode(0o755)).unwrap();
        Self(root)
    }

    fn drill(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runner"));
        command.args(arguments).env("DEV_CHECKOUT", &self.0).env("DEV_BIN_DIR", &self.0);
        command
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.0.join("asked")).unwrap_or_default()
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_drill_is_sound_named_after_its_file_and_listed() {
    let listed = Checkout::new("list").drill(&["list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    let names = scenarios().into_iter().map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned());
    let ids = text(&listed.stdout).lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids, names.collect::<Vec<_>>());
}

#[test]
fn a_file_with_mistakes_is_not_run_and_each_mistake_leads_to_its_place() {
    let checkout = Checkout::new("mistakes");
    let file = checkout.0.join("own.toml");
    let good = fs::read_to_string(&scenarios()[0]).unwrap();
    fs::write(&file, good.replacen("order->", "ordr->", 1).replacen("\nmin = ", "\nmini = ", 1)).unwrap();
    let said = checkout.drill(&[file.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2));
    let said = text(&said.stderr);
    assert!(said.starts_with(&format!("{}:", file.display())) && said.contains("mini"), "{said}");
    assert_eq!(checkout.asked(), "");
}

#[test]
fn a_drill_that_is_not_there_is_one_line_that_says_where_to_look() {
    let said = Checkout::new("missing").drill(&["payment-fast"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("./dev drill list"));
}

#[test]
fn what_a_killed_run_has_left_is_stopped_and_told() {
    let checkout = Checkout::new("killed");
    let mark = checkout.0.join("target/dev/drills/under-way.json");
    // No process has this number: they end below 2^22.
    fs::write(&mark, r#"{"pid":4194305,"started":"1","scenario":"payment-slow","base":21580}"#).unwrap();
    let said = checkout.drill(&["restore"]);
    assert_eq!(said.status.code(), Some(0));
    assert!(text(&said.stderr).contains("payment-slow was killed"), "{}", text(&said.stderr));
    assert_eq!(checkout.asked(), "down --wipe --port-base=21580\n");
    assert!(!mark.exists());
}

#[test]
fn a_system_that_does_not_start_is_no_verdict() {
    let checkout = Checkout::new("no-start");
    let refusing = "#!/bin/sh\n[ \"$1\" = down ] && exit 0\necho 'error: port 1 is taken' >&2\nexit 1\n";
    fs::write(checkout.0.join("stack"), refusing).unwrap();
    let said = checkout.drill(&["payment-slow"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("the system did not start: port 1 is taken"), "{}", text(&said.stderr));
    assert!(!checkout.0.join("target/dev/drills/under-way.json").exists());
}

#[test]
fn a_capacity_of_a_system_that_does_not_start_is_none_and_nothing_of_an_earlier_one_is_left() {
    let checkout = Checkout::new("capacity-no-start");
    refusing(&checkout);
    let draft = checkout.0.join("target/dev/drills/capacity.draft.toml");
    fs::write(&draft, "version = 1").unwrap();
    let said = checkout.drill(&["capacity", "--port-base", "21580"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("the system did not start"), "{}", text(&said.stderr));
    let asked = checkout.asked();
    assert!(asked.contains("--replicas=order=2") && asked.contains("cap = 5"), "{asked}");
    assert!(asked.trim_end().ends_with("down --wipe --port-base=21580"), "what half started is stopped: {asked}");
    assert!(!draft.exists() && !checkout.0.join("target/dev/drills/under-way.json").exists());
}

#[test]
fn a_capacity_is_measured_of_no_system_that_has_mistakes() {
    let checkout = Checkout::new("capacity-mistakes");
    let file = checkout.0.join("own.toml");
    fs::write(&file, "[stack.rules.chain]\nretries = 99\n").unwrap();
    let said = checkout.drill(&["capacity", "--replicas", "2", "--system", file.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("own.toml: stack.rules.chain.retries"), "{}", text(&said.stderr));
    let said = checkout.drill(&["capacity", "--replicas", "1"]);
    assert_eq!((said.status.code(), text(&said.stderr).contains("--replicas")), (Some(2), true));
    assert_eq!(checkout.asked(), "");
}

#[test]
fn a_measurement_that_was_killed_is_cleared_away_by_the_next_command_and_told() {
    let checkout = Checkout::new("capacity-killed");
    let mark = checkout.0.join("target/dev/drills/under-way.json");
    fs::write(&mark, r#"{"pid":4194305,"started":"1","scenario":"capacity","base":21580}"#).unwrap();
    let said = checkout.drill(&["restore"]);
    assert!(text(&said.stderr).contains("capacity was killed"), "{}", text(&said.stderr));
    assert_eq!(checkout.asked(), "down --wipe --port-base=21580\n");
}

#[test]
fn a_measurement_that_is_interrupted_before_its_load_is_aborted_and_leaves_nothing() {
    let checkout = Checkout::new("capacity-interrupted");
    let asked = checkout.0.join("asked");
    // Starts for as long as nobody interrupts whoever asked.
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{}\n[ \"$1\" = down ] && exit 0\nkill -TERM $PPID\nwhile kill -0 $PPID; do sleep 0.1; done 2>/dev/null\n",
        asked.display()
    );
    fs::write(checkout.0.join("stack"), script).unwrap();
    let said = checkout.drill(&["capacity", "--port-base", "21580"]);
    assert_eq!(said.status.code(), Some(3), "{}", text(&said.stderr));
    assert!(text(&said.stderr).contains("interrupted before the load began"), "{}", text(&said.stderr));
    assert!(checkout.asked().trim_end().ends_with("down --wipe --port-base=21580"));
}

/// A stack that stops what it is asked to, and starts nothing; it notes how it was asked, and the rules.
fn refusing(checkout: &Checkout) {
    let asked = checkout.0.join("asked");
    let asked = asked.display();
    let rules = format!("[ -z \"$RULES_FILE\" ] || cat \"$RULES_FILE\" >>{asked}");
    let script = format!("#!/bin/sh\necho \"$@\" >>{asked}\n[ \"$1\" = down ] && exit 0\n{rules}\nexit 1\n");
    fs::write(checkout.0.join("stack"), script).unwrap();
}

#[test]
fn several_drills_run_one_after_the_other_and_end_with_a_table_and_a_summary() {
    let checkout = Checkout::new("several");
    refusing(&checkout);
    let reports = checkout.0.join("pages");
    let said =
        checkout.drill(&["payment-slow", "recommendation-down", "payment-slow", "--report", reports.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2), "none failed, and none says anything");
    let table = text(&said.stdout);
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    let expected = [["drill", "verdict"], ["payment-slow", "inconclusive"], ["recommendation-down", "inconclusive"]];
    assert_eq!(words[..3], expected, "each once: {table}");
    assert_eq!(table.lines().last(), Some("2 inconclusive"));
    let summary = fs::read_to_string(reports.join("index.html")).unwrap();
    assert!(summary.contains("recommendation-down") && summary.contains("the system did not start"));
    assert!(text(&said.stderr).contains("pages/index.html"));
}

#[test]
fn all_means_every_drill_that_there_is() {
    let checkout = Checkout::new("all");
    refusing(&checkout);
    let table = text(&checkout.drill(&["all"]).stdout);
    let ids: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    for file in scenarios() {
        assert!(ids.contains(&file.file_stem().unwrap().to_str().unwrap()), "{table}");
    }
    assert!(checkout.0.join("target/dev/drills/index.html").is_file());
}

#[test]
fn a_comparison_begins_with_a_system_without_guards() {
    let checkout = Checkout::new("compare");
    refusing(&checkout);
    let said = checkout.drill(&["payment-slow", "--compare", "--port-base", "21580"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("without guards: the system did not start"), "{}", text(&said.stderr));
    assert!(checkout.asked().contains("forced = \"closed\""), "{}", checkout.asked());
}

#[test]
fn a_control_begins_with_a_system_without_the_guard_that_the_drill_is_about() {
    let checkout = Checkout::new("control");
    refusing(&checkout);
    let said = checkout.drill(&["hot-user", "--control", "--port-base", "21580"]);
    assert_eq!(said.status.code(), Some(2));
    let told = text(&said.stderr);
    assert!(told.contains("without the limit of each user: the system did not start"), "{told}");
    assert!(checkout.asked().contains("per_second = 1000.0"), "{}", checkout.asked());
    let both = checkout.drill(&["hot-user", "--control", "--compare"]);
    assert!(text(&both.stderr).contains("cannot be used with"), "{}", text(&both.stderr));
}

#[test]
fn one_mistake_in_one_of_several_files_keeps_all_of_them_from_running() {
    let checkout = Checkout::new("one-mistake");
    let file = checkout.0.join("drills/scenarios/payment-slow.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap().replacen("\nmin = ", "\nmini = ", 1)).unwrap();
    let said = checkout.drill(&["recommendation-down", "payment-slow"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("mini"));
    assert_eq!(checkout.asked(), "");
}

#[test]
fn every_drill_names_its_source_and_a_pattern_that_has_a_page_and_could_fail() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in scenarios() {
        let name = file.display().to_string();
        let scenario = runner::scenario::read(&name, &fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|mistakes| panic!("{}", mistakes.iter().map(ToString::to_string).collect::<String>()));
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), scenario.id);
        for (what, text) in [("title", &scenario.title), ("story", &scenario.story), ("source", &scenario.source)] {
            assert!(text.trim().len() > 10, "{name}: its {what} says nothing");
        }
        let page = scenario.pattern.as_ref().unwrap_or_else(|| panic!("{name} names no pattern"));
        assert!(root.join(page).is_file(), "{name}: there is no {page}");
        // A fault whose being felt nobody looks at proves nothing by being borne.
        assert!(!scenario.proof.is_empty(), "{name} has no proof that anything was felt");
        if let Some(control) = &scenario.control {
            assert!(control.without.len() > 5, "{name}: its control does not say what it takes out");
        }
        let seconds = scenario.load.profile().unwrap().duration().as_secs();
        assert!((20..=100).contains(&seconds), "{name} takes {seconds} s");
    }
}
