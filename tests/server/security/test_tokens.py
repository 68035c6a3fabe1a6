"""JWTs: what is accepted, and what is not, whatever a token says of itself."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security.sasl import ShownToken, TokenRefusedError
from coterie_server.security.tokens import (
    KeysError,
    NoKeysError,
    TokenRules,
    read_keys,
    verified,
)

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()
CLAIMS = {"sub": "ann", "iat": NOW_S - 10, "exp": NOW_S + 600}


def pem(key: Any) -> bytes:
    encoded: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def jwk(key: Any, **more: str) -> dict[str, Any]:
    algorithms: Any = jwt.algorithms
    kind = {rsa.RSAPrivateKey: "RSA", ec.EllipticCurvePrivateKey: "EC"}
    name = next((n for cls, n in kind.items() if isinstance(key, cls)), "OKP")
    maker = getattr(algorithms, f"{name}Algorithm")
    made: dict[str, Any] = json.loads(maker.to_jwk(key.public_key()))
    return made | more


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def signed(
    claims: dict[str, Any] | None = None, key: Any = RSA, algorithm: str = "RS256", **header: Any
) -> str:
    return jwt.encode(claims or CLAIMS, key, algorithm, headers=header)


def shown(token: str, keys: bytes | None = None, rules: TokenRules | None = None) -> ShownToken:
    return verified(token, read_keys(keys or pem(RSA)), rules or TokenRules(), NOW_MS)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        *((RSA, each) for each in ("RS256", "RS384", "RS512", "PS256", "PS512")),
        (CURVE, "ES256"),
        (EDWARDS, "EdDSA"),
    ],
)
@pytest.mark.parametrize("form", ["pem", "jwks"])
def test_signature_of_each_kind_is_accepted(key: Any, algorithm: str, form: str) -> None:
    # A JWKS that names no algorithm leaves it to the key.
    keys = pem(key) if form == "pem" else jwks({k: v for k, v in jwk(key).items() if k != "alg"})
    assert shown(signed(key=key, algorithm=algorithm), keys) == ShownToken("ann", 600_000)


def test_key_in_a_certificate_is_accepted() -> None:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    began = datetime.fromtimestamp(NOW_S, UTC)
    certificate = (
        x509.CertificateBuilder(name, name, RSA.public_key(), 1, began, began + timedelta(days=1))
    ).sign(RSA, hashes.SHA256())
    assert shown(signed(), certificate.public_bytes(serialization.Encoding.PEM)).name == "ann"


def test_key_is_chosen_by_its_id() -> None:
    keys = jwks(jwk(OTHER_RSA, kid="old"), jwk(RSA, kid="new"))
    assert shown(signed(kid="new"), keys).name == "ann"
    assert shown(signed(), keys).name == "ann"
    for kid, why in (("old", "signature"), ("gone", "no key")):
        with pytest.raises(TokenRefusedError, match=why):
            shown(signed(kid=kid), keys)


def _unsigned(algorithm: str, signature: bytes = b"") -> str:
    parts = [json.dumps({"alg": algorithm, "typ": "JWT"}).encode(), json.dumps(CLAIMS).encode()]
    encoded = [base64.urlsafe_b64encode(each).rstrip(b"=") for each in (*parts, signature)]
    return b".".join(encoded).decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "RS256"])
def test_unsigned_token_is_refused(algorithm: str) -> None:
    with pytest.raises(TokenRefusedError):
        shown(_unsigned(algorithm))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_public_key_is_no_secret_to_sign_with(algorithm: str) -> None:
    """Else each who has the public key could make tokens."""
    unsigned = _unsigned(algorithm).removesuffix(".")
    digest = algorithm.replace("HS", "sha")
    signature = hmac.digest(pem(RSA), unsigned.encode(), digest)
    encoded = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    with pytest.raises(TokenRefusedError, match="algorithm"):
        shown(f"{unsigned}.{encoded}")


def test_algorithm_of_another_kind_of_key_is_refused() -> None:
    with pytest.raises(TokenRefusedError, match="no key"):
        shown(signed(key=CURVE, algorithm="ES256"), pem(RSA))


def test_algorithm_that_the_key_is_not_for_is_refused() -> None:
    keys = jwks(jwk(RSA, alg="RS512"))
    assert shown(signed(algorithm="RS512"), keys).name == "ann"
    with pytest.raises(TokenRefusedError, match="no key"):
        shown(signed(algorithm="RS256"), keys)


def test_other_signer_is_refused() -> None:
    with pytest.raises(TokenRefusedError, match="signature"):
        shown(signed(key=OTHER_RSA))


def test_token_that_needs_extensions_is_refused() -> None:
    with pytest.raises(TokenRefusedError, match=r"extensions|no JWT"):
        shown(signed(crit=["exp"]))


SKEW_S = 30


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW_S - SKEW_S}, "expired"),
        ({"exp": None}, "'exp'"),
        ({"exp": True}, "'exp'"),
        ({"exp": "soon"}, "'exp'"),
        ({"exp": -1}, "'exp'"),
        ({"exp": 10**400}, "'exp'|no JWT"),
        ({"iat": NOW_S + SKEW_S + 1}, "future"),
        ({"iat": None}, "'iat'"),
        ({"nbf": NOW_S + SKEW_S + 1}, "not valid yet"),
        ({"nbf": "x"}, "'nbf'"),
        ({"iss": "other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"us": 1}}, "audience"),
        ({"sub": ""}, "'sub'"),
        ({"sub": " "}, "'sub'"),
        ({"sub": 7}, "'sub'"),
        ({"sub": None}, "'sub'"),
        ({"scope": ["a", "a"]}, "'scope'"),
        ({"scope": ["a", ""]}, "'scope'"),
        ({"scope": [1]}, "'scope'"),
    ],
)
def test_claims_are_checked(claims: dict[str, Any], why: str) -> None:
    rules = TokenRules(audiences=frozenset({"us", "we"}), issuer="idp")
    right = CLAIMS | {"iss": "idp", "aud": ["x", "us"], "scope": "read write"}
    assert shown(signed(right), rules=rules).name == "ann"
    wrong = {name: value for name, value in (right | claims).items() if value is not None}
    with pytest.raises(TokenRefusedError, match=why):
        shown(signed(wrong), rules=rules)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - SKEW_S + 1},
        {"iat": NOW_S + SKEW_S},
        {"nbf": NOW_S + SKEW_S},
        {"exp": NOW_S + 0.5},
        {"aud": "whatever", "iss": "anyone"},
    ],
)
def test_clocks_may_differ_a_little(claims: dict[str, Any]) -> None:
    assert shown(signed(CLAIMS | claims)).name == "ann"


@pytest.mark.parametrize("blank", [" ", "\t", "\r\n", "\x0b", "\x1c", "\x1f", "\0"])
def test_name_is_without_what_java_trims(blank: str) -> None:
    assert shown(signed(CLAIMS | {"sub": f"{blank}ann{blank}"})).name == "ann"
    with pytest.raises(TokenRefusedError, match="'sub'"):
        shown(signed(CLAIMS | {"sub": blank * 2}))


@pytest.mark.parametrize("blank", ["\x7f", "\x85", "\xa0", "\u2003", "\u2028", "\u3000"])
def test_other_blanks_belong_to_the_name(blank: str) -> None:
    """As in Kafka: without them it would be that of another user."""
    assert shown(signed(CLAIMS | {"sub": f"ann{blank}"})).name == f"ann{blank}"
    assert shown(signed(CLAIMS | {"sub": blank})).name == blank
    shown(signed(CLAIMS | {"scope": ["read", f"read{blank}", blank]}))


def test_token_that_would_take_long_to_read_is_refused() -> None:
    assert shown(signed(CLAIMS | {"more": "x" * 40_000})).name == "ann"
    with pytest.raises(TokenRefusedError, match="longer than 65536 characters"):
        shown(signed(CLAIMS | {"more": "x" * 60_000}))


def test_claims_may_have_other_names() -> None:
    rules = TokenRules(name_claim="preferred_username", scope_claim="scp")
    claims = CLAIMS | {"preferred_username": "ann.b", "scp": ["read"], "scope": ["", ""]}
    assert shown(signed(claims), rules=rules).name == "ann.b"


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "a" * 10_000, "é.b.c"])
def test_garbage_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        shown(token)


@given(st.text(st.sampled_from('abcXYZ019._-={}"')))
def test_any_text_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        shown(token)


@given(st.data())
def test_any_change_of_a_token_is_refused(data: st.DataObject) -> None:
    token = _TOKEN
    at = data.draw(st.integers(0, len(token) - 2))  # the last character has bits that don't count
    changed = data.draw(st.sampled_from("abcXYZ019._-").filter(lambda each: each != token[at]))
    with pytest.raises(TokenRefusedError):
        shown(token[:at] + changed + token[at + 1 :])


_TOKEN = signed()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b'{"keys": []}',
        b'{"keys": {}}',
        b'{"keys": [1]}',
        b'{"keys": ' + b"[" * 100_000,
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}',
        jwks(jwk(RSA, use="enc")),
        jwks(jwk(RSA, alg="HS256")),
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        b"no keys here",
        pem(rsa.generate_private_key(65537, 1024)),  # noqa: S505  # that is the point
        pem(ec.generate_private_key(ec.SECP256K1())),
    ],
)
def test_file_without_usable_keys_is_refused(data: bytes) -> None:
    with pytest.raises(KeysError):
        read_keys(data)


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "OKP", "crv": "Ed448", "x": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": ["P-256"]},
        {"kty": "RSA", "alg": "none", "n": "AA", "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": None},
        {"kty": ["RSA"]},
        {},
        None,
        "key",
        7,
    ],
)
def test_entry_that_is_no_key_keeps_none_of_the_others_from_being_read(entry: Any) -> None:
    """Once the keys before a change stayed good for ever, also those that were withdrawn."""
    data = json.dumps({"keys": [entry, jwk(RSA, kid="a"), entry]}).encode()
    assert [each.kid for each in read_keys(data)] == ["a"]


@pytest.mark.parametrize("entry", [[], [{"kty": "oct"}], [{"kty": "OKP", "crv": "Ed448"}]])
def test_file_without_keys_is_another_thing_than_one_that_can_not_be_read(entry: Any) -> None:
    with pytest.raises(NoKeysError):
        read_keys(json.dumps({"keys": entry}).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b'{"keys": {}}', b'{"keys": 5}', b"x"])
def test_file_that_can_not_be_read_is_not_one_without_keys(data: bytes) -> None:
    with pytest.raises(KeysError) as caught:
        read_keys(data)
    assert not isinstance(caught.value, NoKeysError)


def test_other_entries_of_a_jwks_are_passed_over() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}
    keys = read_keys(jwks(secret, {"kty": "new"}, jwk(OTHER_RSA, use="enc"), jwk(RSA, kid="a")))
    assert [each.kid for each in keys] == ["a"]
