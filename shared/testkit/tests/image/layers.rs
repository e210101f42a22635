//! The image that was built last, layer by layer, as whoever pulls it could read it. Skipped where there is no such image.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::read;

/// As the compose file calls it.
const IMAGE: &str = "order-system:dev";
/// What the compose file hands to containers and nobody else may see.
const SECRETS: [&str; 12] = [
    "AUTH_JWT_SECRET",
    "INTERNAL_TOKENS",
    "ORDER_TOKEN",
    "INVENTORY_TOKEN",
    "PAYMENT_TOKEN",
    "COUPON_TOKEN",
    "RECOMMENDATION_TOKEN",
    "WEBHOOK_SECRETS",
    "WEBHOOK_SECRET",
    "POSTGRES_PASSWORD",
    "SERVICE_DB_PASSWORD",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
/// In every image, on purpose: what the services refuse outside of development.
const WELL_KNOWN: &str = "dev-only-user-token-secret-0123456789";
/// Where the programs are, and what `useradd` and the two folders for volumes leave behind.
const PROGRAMS: &str = "usr/local/bin/";
const OURS: [&str; 5] = [PROGRAMS, "etc/", "var/lib/provider/", "var/lib/rules/", "var/log/"];

/// An image taken apart.
struct Layers {
    folder: PathBuf,
    /// Of the image: its environment, and the instructions that made it.
    told: String,
    /// The files of each layer, the base's first.
    files: Vec<Vec<PathBuf>>,
}

impl Drop for Layers {
    fn drop(&mut self) {
        // What is left lies below target/.
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn docker(arguments: &[&str]) -> Result<String, String> {
    let said =
        Command::new("docker").args(arguments).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if said.status.success() {
        Ok(text(&said.stdout))
    } else {
        Err(text(&said.stderr).lines().last().unwrap_or_default().to_owned())
    }
}

fn taken_apart() -> Result<Layers, String> {
    let config = docker(&["image", "inspect", "--format", "{{json .Config}} {{.Created}}", IMAGE])?;
    let history = docker(&["history", "--no-trunc", "--format", "{{.CreatedBy}} {{.Comment}}", IMAGE])?;
    eprintln!("{IMAGE}: {config}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image-layers");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let mut layers = Layers { folder, told: format!("{config}\n{history}"), files: Vec::new() };
    let saved = layers.folder.join("image.tar");
    docker(&["save", "--output", saved.to_str().unwrap(), IMAGE])?;
    unpack(&saved, &layers.folder.join("image"));
    let manifest = fs::read(layers.folder.join("image/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    for (number, layer) in manifest[0]["Layers"].as_array().unwrap().iter().enumerate() {
        let content = layers.folder.join(number.to_string());
        unpack(&layers.folder.join("image").join(layer.as_str().unwrap()), &content);
        let mut files = Vec::new();
        list(&content, &mut files);
        layers.files.push(files);
    }
    Ok(layers)
}

/// `tar` sees by itself whether it is compressed. Devices and owners are nothing to search, and not everybody may make them.
fn unpack(archive: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--no-same-owner", "--no-same-permissions", "--exclude=dev/*", "-xf"]).arg(archive).arg("-C").arg(into);
    assert!(tar.status().unwrap().success(), "{}", archive.display());
    // So that they can be read, and removed again.
    assert!(Command::new("chmod").args(["-R", "u+rwX"]).arg(into).status().unwrap().success());
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            list(&path, files);
        } else if kind.is_file() {
            files.push(path);
        }
    }
}

/// Secrets of this checkout: those in the file from which Compose takes them, and those in this environment.
fn secrets() -> BTreeSet<String> {
    let file = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.env")).unwrap_or_default();
    let in_file = file.lines().filter_map(|line| line.trim().split_once('=')).map(|(_, value)| value.to_owned());
    let in_environment = SECRETS.into_iter().filter_map(|name| env::var(name).ok());
    let parts = in_file.chain(in_environment).flat_map(|value| {
        // Lists of tokens, and of callers with theirs.
        value.split([',', ':']).map(|part| part.trim_matches(['"', '\'']).to_owned()).collect::<Vec<_>>()
    });
    parts.filter(|part| part.len() >= 12).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

#[test]
fn no_layer_holds_a_secret_or_what_is_left_of_a_build() {
    let layers = match taken_apart() {
        Ok(layers) => layers,
        Err(why) => return eprintln!("layers of {IMAGE} skipped: {why}"),
    };
    assert!(layers.files.len() >= 2, "a base and something of ours");
    let secrets = secrets();
    let (mut found, mut programs, mut searched) = (Vec::new(), BTreeSet::new(), 0);
    for (number, files) in layers.files.iter().enumerate() {
        let root = layers.folder.join(number.to_string());
        for file in files {
            let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
            let bytes = fs::read(file).unwrap();
            searched += bytes.len();
            found.extend(secrets.iter().filter(|secret| holds(&bytes, secret)).map(|_| format!("a secret in {name}")));
            // A program may hold the words, to read keys by.
            let program = name.strip_prefix(PROGRAMS);
            if number > 0 && program.is_none() && holds(&bytes, "PRIVATE KEY-----") {
                found.push(format!("a key in {name}"));
            }
            if number > 0 && !OURS.iter().any(|ours| name.starts_with(ours)) {
                found.push(format!("what is {name}?"));
            }
            if let Some(program) = program.filter(|_| number > 0) {
                let is_service = contracts::Service::ALL.iter().any(|service| service.as_str() == program);
                assert!(!is_service || holds(&bytes, WELL_KNOWN), "the search finds nothing in {program}");
                programs.insert(program.to_owned());
            }
        }
    }
    found.extend(
        secrets.iter().filter(|secret| layers.told.contains(*secret)).map(|_| "a secret in its history".into()),
    );
    assert!(found.is_empty(), "{found:#?}");
    // Those that the recipe names, and no other; an image of before may lack one.
    let recipe = read("deploy/Dockerfile");
    let copied = recipe.lines().find_map(|line| line.trim().strip_prefix("&& cp ")?.strip_suffix(" /out/")).unwrap();
    let copied: BTreeSet<String> = copied.split(' ').map(str::to_owned).collect();
    assert!(!programs.is_empty() && programs.is_subset(&copied), "{programs:?}");
    println!(
        "{} layers, {searched} bytes, searched for {} secrets of this checkout",
        layers.files.len(),
        secrets.len()
    );
}
