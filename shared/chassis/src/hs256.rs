//! The one signature algorithm of users' tokens, HMAC with SHA-256, and no other.
//!
//! `jsonwebtoken` leaves cryptography to a provider. The ones that come with it bring RSA and three elliptic curves along,
//! which nobody here signs with: code that takes long to compile and would only ever run on a forged token.

use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
};
use sha2::Sha256;
use signature::{Error, Signer, Verifier};

/// Before the first token is made or read. Any number of times.
pub(crate) fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory,
        verifier_factory,
        // For key sets, of which there are none.
        key_utils: KeyUtils::new_unimplemented(),
    };
    // An error says that there is one already: this one, installed before.
    let _ = PROVIDER.install_default();
}

struct Hs256(Hmac<Sha256>);

impl Hs256 {
    fn new(algorithm: Algorithm, family: AlgorithmFamily, secret: &[u8]) -> Result<Self> {
        if algorithm != Algorithm::HS256 || family != AlgorithmFamily::Hmac {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let mac = Hmac::new_from_slice(secret).map_err(|_| ErrorKind::InvalidKeyFormat)?;
        Ok(Self(mac))
    }

    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(message);
        mac
    }
}

fn signer_factory(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Ok(Box::new(Hs256::new(*algorithm, key.family(), key.as_bytes())?))
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    Ok(Box::new(Hs256::new(*algorithm, key.family(), key.try_get_as_bytes()?)?))
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(self.over(message).finalize().into_bytes().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        // In constant time.
        self.over(message).verify_slice(signature).map_err(Error::from_source)
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        hex::decode(text).unwrap()
    }

    // RFC 4231, test cases 1 and 2.
    #[test]
    fn it_signs_as_the_standard_says_and_knows_its_own_signature() {
        for (key, message, signed) in [
            (&[0x0b; 20][..], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
        ] {
            let mac = Hs256::new(Algorithm::HS256, AlgorithmFamily::Hmac, key).unwrap();
            assert_eq!(mac.try_sign(message).unwrap(), bytes(signed));
            mac.verify(message, &bytes(signed)).unwrap();
            assert!(mac.verify(b"something else", &bytes(signed)).is_err());
            assert!(mac.verify(message, &bytes(signed)[..31].to_vec()).is_err(), "half a signature is none");
            assert!(mac.verify(message, &Vec::new()).is_err());
        }
    }

    #[test]
    fn no_other_algorithm_is_had() {
        for algorithm in [Algorithm::HS384, Algorithm::HS512, Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
            assert!(Hs256::new(algorithm, AlgorithmFamily::Hmac, b"key").is_err(), "{algorithm:?}");
        }
        assert!(Hs256::new(Algorithm::HS256, AlgorithmFamily::Rsa, b"key").is_err());
    }
}
