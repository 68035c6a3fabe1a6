"""Tokens of OAUTHBEARER: JWTs that an identity provider has signed (RFC 7519).

Only signatures with a private key count: tokens without one, and those that are signed by a secret
which a public key would be mistaken for, are refused, whatever the token says of itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from coterie_protocol.exceptions import CoterieError
from coterie_server.security.java_text import trimmed
from coterie_server.security.sasl.oauthbearer import ShownToken, TokenRefusedError

__all__ = ["KeysError", "NoKeysError", "TokenRules", "VerifyingKey", "read_keys", "verified"]

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_ALL: Final = (*_RSA, *_CURVES.values(), "EdDSA")
#: Shorter ones can be broken.
_RSA_BITS_MIN: Final = 2048
#: The library looks at each character of a token by itself.
_LENGTH_MAX: Final = 65_536
#: So many that fit a token are tried at most.
_TRIED_MAX: Final = 16
_PEM: Final = re.compile(
    rb"-----BEGIN (?P<what>CERTIFICATE|PUBLIC KEY|RSA PUBLIC KEY)-----.+?-----END (?P=what)-----",
    re.DOTALL,
)
#: Times and claims are checked here: the library would ask a clock.
_ONLY_SIGNATURE: Final = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}

_UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    UnsupportedAlgorithm,
    jwt.PyJWTError,
)


class KeysError(CoterieError):
    """A file has no keys that tokens can be verified with; the text says why."""


class NoKeysError(KeysError):
    """A file can be read, and has no such keys."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key, and by which algorithms it may have signed."""

    key: Any
    algorithms: tuple[str, ...]
    #: Its name in tokens; None if it has none, and may then have signed any.
    kid: str | None = None


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to say."""

    audiences: frozenset[str] = frozenset()
    issuer: str = ""
    clock_skew_ms: int = 30_000
    name_claim: str = "sub"
    scope_claim: str = "scope"


def read_keys(data: bytes) -> list[VerifyingKey]:
    """The keys in a JWKS or in PEM; raises `KeysError` if there are none.

    That is a `NoKeysError` if what is there can be read.
    """
    try:
        keys = _from_jwks(data) if data.lstrip()[:1] == b"{" else _from_pem(data)
    except _UNREADABLE as error:
        raise KeysError(f"no readable keys: {type(error).__name__}") from error
    if not keys:
        raise NoKeysError(
            "no public keys of RSA with 2048 bits or more, of a NIST curve or Ed25519"
        )
    return keys


def _from_pem(data: bytes) -> list[VerifyingKey]:
    found = []
    for match in _PEM.finditer(data):
        if match["what"] == b"CERTIFICATE":
            key: Any = x509.load_pem_x509_certificate(match[0]).public_key()
        else:
            key = serialization.load_pem_public_key(match[0])
        found.append(_verifying(key, None, None))
    if not found:
        raise KeysError("neither a JWKS nor public keys in PEM")
    return [each for each in found if each is not None]


def _from_jwks(data: bytes) -> list[VerifyingKey]:
    entries = json.loads(data)["keys"]
    if not isinstance(entries, list):
        raise TypeError("the keys of a JWKS are a list")
    return [key for each in entries if (key := _from_entry(each)) is not None]


def _from_entry(entry: dict[str, Any]) -> VerifyingKey | None:
    """A key of a JWKS; None for others, as to encrypt with, secrets, and kinds that come later."""
    try:
        if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
            return None
        public = {name: value for name, value in entry.items() if name != "d"}
        key = jwt.PyJWK(public, algorithm=_algorithm(entry)).key
        return _verifying(key, entry.get("kid"), entry.get("alg"))
    except _UNREADABLE:
        return None


def _algorithm(entry: dict[str, Any]) -> str:
    named = entry.get("alg")
    if named is not None:
        return str(named)
    if entry["kty"] == "RSA":
        return "RS256"
    curves = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
    return curves.get(entry.get("crv", ""), "none")


def _verifying(key: Any, kid: Any, named: str | None) -> VerifyingKey | None:  # noqa: ANN401  # as found in a file
    algorithms: tuple[str, ...] = ()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS_MIN:
        algorithms = _RSA
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = (_CURVES[key.curve.name],)
    elif isinstance(key, ed25519.Ed25519PublicKey):
        algorithms = ("EdDSA",)
    if named is not None:
        algorithms = tuple(each for each in algorithms if each == named)
    if not algorithms:
        return None
    return VerifyingKey(key, algorithms, None if kid is None else str(kid))


def verified(
    token: str, keys: Sequence[VerifyingKey], rules: TokenRules, date_ms: int
) -> ShownToken:
    """Whose token it is and how long it holds; raises `TokenRefusedError`."""
    claims = _claims(token, keys)
    expires_ms = _date_ms(claims, "exp")
    if date_ms >= expires_ms + rules.clock_skew_ms:
        raise TokenRefusedError("it has expired")
    if _date_ms(claims, "iat") > date_ms + rules.clock_skew_ms:
        raise TokenRefusedError("it was issued in the future")
    if "nbf" in claims and _date_ms(claims, "nbf") > date_ms + rules.clock_skew_ms:
        raise TokenRefusedError("it is not valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenRefusedError("it is of another issuer")
    if rules.audiences and not rules.audiences.intersection(_texts(claims.get("aud"))):
        raise TokenRefusedError("it is for another audience")
    _check_scopes(claims.get(rules.scope_claim), rules)
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not trimmed(name):
        raise TokenRefusedError(f"it has no claim {rules.name_claim!r} with a name")
    return ShownToken(trimmed(name), expires_ms - date_ms)


def _claims(token: str, keys: Sequence[VerifyingKey]) -> dict[str, Any]:
    if len(token) > _LENGTH_MAX:
        raise TokenRefusedError(f"it is longer than {_LENGTH_MAX} characters")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefusedError("it is no JWT") from None
    algorithm = header.get("alg")
    if algorithm not in _ALL:
        raise TokenRefusedError("its algorithm is not one with a private key")
    if "crit" in header:
        raise TokenRefusedError("it needs extensions that are not supported")
    kid = header.get("kid")
    fitting = [
        each
        for each in keys
        if algorithm in each.algorithms and (kid is None or each.kid in (None, kid))
    ]
    if not fitting:
        raise TokenRefusedError("there is no key for it")
    signer = _signer(token, str(algorithm), fitting[:_TRIED_MAX])
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            signer.key,
            algorithms=[str(algorithm)],
            options=_ONLY_SIGNATURE,  # type: ignore[arg-type]
        )
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefusedError("it is no JWT") from None
    return claims


def _signer(token: str, algorithm: str, keys: Sequence[VerifyingKey]) -> VerifyingKey:
    """The key that a token seems to be signed with.

    It is found first, as to decode the token with each of them would take many times as long.
    """
    said, _, signature = token.rpartition(".")
    known = jwt.get_algorithm_by_name(algorithm)
    try:
        proof = jwt.utils.base64url_decode(signature)
        found = (each for each in keys if known.verify(said.encode(), each.key, proof))
        signer = next(found, None)
    except (jwt.PyJWTError, ValueError):
        raise TokenRefusedError("it is no JWT") from None
    if signer is None:
        raise TokenRefusedError("its signature does not fit")
    return signer


def _date_ms(claims: dict[str, Any], claim: str) -> int:
    value = claims.get(claim)
    # Beyond this, it is no date but an attempt to make the arithmetic fail.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise TokenRefusedError(f"it has no claim {claim!r} with a date")
    return int(value * 1000)


def _texts(value: object) -> Collection[str]:
    if isinstance(value, str):
        return (value,)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else ()


def _check_scopes(value: object, rules: TokenRules) -> None:
    """As Kafka does: no scope may be empty, or be there twice."""
    scopes = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    texts = [trimmed(each) for each in scopes if isinstance(each, str)]
    if len(texts) < len(scopes) or not all(texts) or len(set(texts)) < len(texts):
        raise TokenRefusedError(f"its claim {rules.scope_claim!r} is malformed")
