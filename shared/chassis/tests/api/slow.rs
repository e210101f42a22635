//! Clients that take their time with what they have to say.

use rules::Rules;
use testkit::malformed::{read_answer, trickle};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_do_not_come_or_come_too_slowly_are_cut_off_with_408_on_both_ports() {
    let shop = Shop::open(Rules::default()).await;
    let (api, admin) = (shop.app.running.api_addr(), shop.app.running.admin_addr());
    let head = b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ";
    let stop_short = async |addr| {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        socket.write_all(head).await.unwrap();
        read_answer(&mut socket).await.0
    };
    let (a, b, (c, _), (d, _)) =
        tokio::join!(stop_short(api), stop_short(admin), trickle(api, head), trickle(admin, head));
    assert_eq!([a, b, c, d], [408; 4]);
}
