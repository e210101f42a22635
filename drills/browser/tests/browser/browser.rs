//! A browser of its own for each test, through its driver.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use fantoccini::{Client, ClientBuilder, elements::Element, error::CmdError, wd::WebDriverCompatibleCommand};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use testkit::eventually;

pub struct Browser {
    client: Client,
    pictures: PathBuf,
}

/// What WebDriver has no word for and Chromium's driver adds.
#[derive(Debug)]
struct Chromium {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Chromium {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    pub async fn open() -> Self {
        let named = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run ./dev test"));
        let pictures = PathBuf::from(named("DEV_BROWSER_PICTURES"));
        std::fs::create_dir_all(&pictures).unwrap();
        // As root, in a container, without a screen or a large /dev/shm.
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,900"];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let Value::Object(capabilities) = capabilities else { unreachable!("written as one") };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        let client = builder.connect(&named("DEV_BROWSER_DRIVER")).await.unwrap();
        Self { client, pictures }
    }

    pub async fn goto(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    pub async fn refresh(&self) {
        self.client.refresh().await.unwrap();
    }

    /// What a script gives back.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.unwrap()
    }

    /// The same for one that calls its last argument when it is done.
    pub async fn run_async(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute_async(script, arguments).await.unwrap()
    }

    /// Waits until `expression` is true in the page.
    pub async fn until(&self, what: &str, expression: &str) {
        let script = format!("return Boolean({expression})");
        eventually(what, async || (self.run(&script, vec![]).await == true).then_some(())).await;
    }

    /// The first element that is there and can be seen.
    pub async fn find(&self, selector: &str) -> Element {
        // In the middle of the window, as a person scrolls: nothing that sticks to an edge lies over it there.
        let script = "const found = [...document.querySelectorAll(arguments[0])].find((one) => one.checkVisibility());
                      found?.scrollIntoView({block: 'center', behavior: 'instant'});
                      return found ?? null";
        let found = eventually(selector, async || {
            let found = self.run(script, vec![json!(selector)]).await;
            (!found.is_null()).then_some(found)
        });
        Element::from_element_id(self.client.clone(), id_of(&found.await).into())
    }

    pub async fn click(&self, selector: &str) {
        // What is drawn anew in this moment is looked for again.
        eventually(&format!("a click on {selector}"), async || self.find(selector).await.click().await.ok()).await;
    }

    /// Types as a person does, in place of what is there.
    pub async fn fill(&self, selector: &str, text: &str) {
        let field = self.find(selector).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// A key, wherever the focus is.
    pub async fn press(&self, key: &str) {
        self.client.active_element().await.unwrap().send_keys(key).await.unwrap();
    }

    pub async fn choose(&self, selector: &str, value: &str) {
        self.find(selector).await.select_by_value(value).await.unwrap();
    }

    pub async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    pub async fn has_size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.tell("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// `light` or `dark`; without what moves, so that pictures are still.
    pub async fn prefers(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.tell("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// The whole page, kept as `NAME.png` beside the other output of the tests.
    pub async fn picture(&self, name: &str) -> PathBuf {
        let size = self
            .run("return [innerWidth, Math.min(6000, document.documentElement.scrollHeight), innerHeight]", vec![])
            .await;
        let of = |at: usize| u32::try_from(size[at].as_u64().unwrap()).unwrap();
        // What sticks to an edge of the window belongs at the edge of the picture.
        self.has_size(of(0), of(1)).await;
        let png = self.client.screenshot().await.unwrap();
        self.has_size(of(0), of(2)).await;
        let path = self.pictures.join(format!("{name}.png"));
        std::fs::write(&path, png).unwrap();
        path
    }

    async fn tell(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.client.issue_cmd(Chromium { path: "goog/cdp/execute", body }).await.unwrap();
    }

    /// Ends, and looks at what the browser complained of: nothing may be there but `expected`, parts of lines.
    pub async fn close(self, expected: &[&str]) {
        let said = self.client.issue_cmd(Chromium { path: "se/log", body: json!({"type": "browser"}) }).await.unwrap();
        let lines: Vec<&str> = said.as_array().unwrap().iter().filter_map(|line| line["message"].as_str()).collect();
        // Whether there is a session is asked before there is one.
        let known = |line: &&&str| line.contains("/v1/session ") || expected.iter().any(|part| line.contains(part));
        let complaints: Vec<_> = lines.iter().filter(|line| !known(line)).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let ended: Result<(), CmdError> = self.client.close().await;
        ended.unwrap();
    }
}

/// How WebDriver writes an element in JSON.
fn id_of(found: &Value) -> String {
    found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
}

/// The program that looks for what keeps people out, where the script found one.
pub fn axe() -> Result<String, String> {
    let path = std::env::var("AXE").map_err(|_| "AXE names no axe.min.js".to_owned())?;
    std::fs::read_to_string(Path::new(&path)).map_err(|error| format!("{path}: {error}"))
}
