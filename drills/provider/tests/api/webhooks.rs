use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use chrono::Utc;
use contracts::provider::{Webhook, WebhookKind};
use provider::{WebhookTarget, sign};
use serde_json::json;
use testkit::eventually;

use crate::setup::{Setup, setup_with};

/// The signature header and the body.
type Received = (String, Vec<u8>);

#[derive(Clone, Default)]
struct Inbox {
    got: Arc<Mutex<Vec<Received>>>,
    /// So many are answered 503 first.
    refuse: Arc<Mutex<u32>>,
}

impl Inbox {
    fn got(&self) -> Vec<Received> {
        self.got.lock().unwrap().clone()
    }

    fn hooks(&self) -> Vec<Webhook> {
        self.got().iter().map(|(_, body)| serde_json::from_slice(body).unwrap()).collect()
    }

    async fn wait_for(&self, count: usize) -> Vec<Webhook> {
        eventually("webhooks", async || Some(self.hooks()).filter(|hooks| hooks.len() >= count)).await
    }
}

async fn receive(inbox: web::Data<Inbox>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    let signature = request.headers().get("provider-signature").unwrap().to_str().unwrap().to_owned();
    inbox.got.lock().unwrap().push((signature, body.to_vec()));
    let mut refuse = inbox.refuse.lock().unwrap();
    if *refuse > 0 {
        *refuse -= 1;
        return HttpResponse::ServiceUnavailable().finish();
    }
    HttpResponse::Ok().finish()
}

async fn with_receiver(refuse: u32) -> (Setup, Inbox) {
    let inbox = Inbox { refuse: Arc::new(Mutex::new(refuse)), ..Inbox::default() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap()).parse().unwrap();
    let data = web::Data::new(inbox.clone());
    let server = HttpServer::new(move || App::new().app_data(data.clone()).route("/hook", web::post().to(receive)))
        .workers(1)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
    tokio::spawn(server);
    let it = setup_with(|config| config.webhook = Some(WebhookTarget { url, secret: "whsec_test".to_owned() })).await;
    (it, inbox)
}

#[tokio::test]
async fn every_decision_and_refund_is_told_once_and_signed() {
    let (it, inbox) = with_receiver(0).await;
    let charge = it.api.charge("k-1", "tok_approve").await.id;
    it.api.charge("k-1", "tok_approve").await;
    inbox.wait_for(1).await;
    it.api.charge("k-2", "tok_decline").await;
    inbox.wait_for(2).await;
    assert_eq!(it.api.refund(&charge, "r-1", 400).await.status(), 200);
    let hooks = inbox.wait_for(3).await;

    let told: Vec<_> = hooks.iter().map(|h| (h.kind, h.key.as_str(), h.amount_minor)).collect();
    assert_eq!(
        told,
        [
            (WebhookKind::ChargeApproved, "k-1", 1_000),
            (WebhookKind::ChargeDeclined, "k-2", 1_000),
            (WebhookKind::RefundSucceeded, "r-1", 400),
        ]
    );
    assert_eq!(hooks[2].charge_id, charge);
    for (signature, body) in inbox.got() {
        let unix: i64 = signature.strip_prefix("t=").unwrap().split(',').next().unwrap().parse().unwrap();
        assert!((Utc::now().timestamp() - unix).abs() < 60);
        assert_eq!(signature, sign("whsec_test", unix, &body));
    }
}

#[tokio::test]
async fn a_lost_reply_is_still_told_by_webhook() {
    let (it, inbox) = with_receiver(0).await;
    assert!(it.api.try_charge("lost", "tok_lost_reply").await.is_err());
    assert_eq!(inbox.wait_for(1).await[0].key, "lost");
}

#[tokio::test]
async fn a_webhook_that_is_refused_is_sent_again_with_the_same_id() {
    let (it, inbox) = with_receiver(2).await;
    it.api.charge("k", "tok_approve").await;
    let hooks = inbox.wait_for(3).await;
    assert_eq!(hooks[0], hooks[1]);
    assert_eq!(hooks[1], hooks[2]);
}

#[tokio::test]
async fn duplicate_sends_the_same_webhook_twice_and_off_sends_none() {
    let (it, inbox) = with_receiver(0).await;
    it.api.behave(json!({"webhook": "off"})).await;
    it.api.charge("quiet", "tok_approve").await;
    it.api.behave(json!({"webhook": "duplicate"})).await;
    it.api.charge("twice", "tok_approve").await;
    let hooks = inbox.wait_for(2).await;
    assert_eq!(hooks[0], hooks[1]);
    assert!(hooks.iter().all(|hook| hook.key == "twice"), "nothing was sent for the first charge");
}

#[tokio::test]
async fn late_webhooks_come_after_their_delay_and_do_not_hold_up_others() {
    let (it, inbox) = with_receiver(0).await;
    it.api.behave(json!({"webhook": "late", "webhook_late_ms": 600})).await;
    it.api.charge("late", "tok_approve").await;
    it.api.behave(json!({"webhook": "on"})).await;
    it.api.charge("prompt", "tok_approve").await;
    let keys: Vec<_> = inbox.wait_for(2).await.into_iter().map(|hook| hook.key).collect();
    assert_eq!(keys, ["prompt", "late"]);
}
