"""What Kafka's `client.properties` say of TLS and SASL, in this client's terms."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from coterie_client.errors import ConfigurationError
from coterie_client.wire.credentials import Sasl, SaslMechanism, TokenSource
from coterie_client.wire.properties import LoginModule, parse_jaas, parse_properties
from coterie_client.wire.tls import Tls
from coterie_client.wire.tokens import ClientCredentials, TokenFile

__all__ = ["read_properties", "sasl_of", "tls_of"]

#: No file of properties is nearly as large; what is may be a device that never ends.
_SIZE_MAX: Final = 1_000_000
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_LINE: Final = 64
#: Kafka's own default of `unsecuredLoginLifetimeSeconds`.
_UNSECURED_LIFETIME_S: Final = 3_600


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a file of properties, in Latin-1 as Java does."""
    try:
        with Path(path).open(encoding="latin-1", newline="") as file:
            text = file.read(_SIZE_MAX + 1)
    except (OSError, ValueError) as error:  # the latter for a zero byte in the path
        reason = getattr(error, "strerror", None) or "it is no path"
        raise ConfigurationError(f"the file {path} can't be read: {reason}") from None
    if len(text) > _SIZE_MAX:
        raise ConfigurationError(f"the file {path} is too large to be one of properties")
    try:
        return parse_properties(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _protocol(properties: Mapping[str, str]) -> str:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}")
    return protocol


# -- TLS -------------------------------------------------------------------------------------------


def tls_of(properties: Mapping[str, str]) -> Tls | None:
    """The settings for TLS; None if it is not used."""
    if not _protocol(properties).endswith("SSL"):
        return None
    cafile, cadata = _store(properties, "truststore", properties.get("ssl.truststore.certificates"))
    chain, key = (properties.get(f"ssl.keystore.{n}", "") for n in ("certificate.chain", "key"))
    if bool(chain) != bool(key):
        raise ConfigurationError(
            "ssl.keystore.certificate.chain and ssl.keystore.key must be given together"
        )
    certfile, certdata = _store(properties, "keystore", f"{key}\n{chain}" if chain else None)
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in ("https", ""):
        raise ConfigurationError(
            "ssl.endpoint.identification.algorithm must be https, or empty for none"
        )
    has_own = certfile is not None or certdata is not None
    return Tls(
        cafile=cafile,
        cadata=cadata,
        certfile=certfile,
        certdata=certdata,
        key_password=properties.get("ssl.key.password") or None if has_own else None,
        verify_hostname=bool(algorithm),
    )


def _store(
    properties: Mapping[str, str], store: str, text: str | None
) -> tuple[str | None, str | None]:
    """A store of certificates: the path of a PEM file, or PEM text, or neither."""
    path = properties.get(f"ssl.{store}.location") or None
    kind = properties.get(f"ssl.{store}.type", "").upper()
    if kind not in ("", "PEM") and (path or text):
        raise _not_pem(store, kind)
    if path and text:
        raise ConfigurationError(f"ssl.{store}.location must not be given along with PEM text")
    if text:
        return None, _with_lines(text, store)
    if path and not kind and not _is_pem(path):
        # Kafka's default is JKS; a file of PEM says itself what it is.
        raise _not_pem(store, "JKS or PKCS12")
    return path, None


def _is_pem(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return b"-----BEGIN " in file.read(_SIZE_MAX)
    except (OSError, ValueError):
        return True  # what is wrong is told when the file is used


def _not_pem(store: str, kind: str) -> ConfigurationError:
    way = (
        "with 'keytool -exportcert -rfc'"
        if store == "truststore"
        else "with 'keytool -importkeystore -deststoretype PKCS12' and 'openssl pkcs12'"
    )
    return ConfigurationError(
        f"ssl.{store}.type must be PEM, and the store is {kind}: export it {way}, and set"
        f" ssl.{store}.type=PEM"
    )


def _with_lines(text: str, store: str) -> str:
    """PEM text with the line ends that a file of properties loses."""
    blocks = [
        match[0] if "Proc-Type" in match[2] else _block(match[1], "".join(match[2].split()))
        for match in _PEM.finditer(text)
    ]
    if not blocks:
        raise ConfigurationError(f"the certificates of ssl.{store} must be PEM text")
    return "\n".join(blocks)


def _block(kind: str, body: str) -> str:
    lines = [body[at : at + _PEM_LINE] for at in range(0, len(body), _PEM_LINE)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


# -- SASL ------------------------------------------------------------------------------------------

_PASSWORD_MODULES: Final = {
    SaslMechanism.PLAIN: "PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "ScramLoginModule",
}


def sasl_of(properties: Mapping[str, str]) -> Sasl | None:
    """The settings for SASL; None if it is not used."""
    if not _protocol(properties).startswith("SASL_"):
        return None
    name = properties.get("sasl.mechanism", "GSSAPI")
    if name not in tuple(SaslMechanism):
        shown = name if name.isascii() and name.isprintable() else "unknown"
        raise ConfigurationError(
            f"sasl.mechanism must be one of {', '.join(SaslMechanism)}, and it is {shown}"
        )
    mechanism = SaslMechanism(name)
    config = properties.get("sasl.jaas.config")
    if mechanism == SaslMechanism.OAUTHBEARER:
        module = parse_jaas(config) if config else LoginModule("OAuthBearerLoginModule", {})
        _check_module(module, "OAuthBearerLoginModule", mechanism)
        return Sasl(mechanism, token=_tokens(properties, module.options), extensions=_more(module))
    if not config:
        raise ConfigurationError(f"sasl.jaas.config must be given along with {mechanism}")
    module = parse_jaas(config)
    _check_module(module, _PASSWORD_MODULES[mechanism], mechanism)
    for option in ("username", "password"):
        if not module.options.get(option):
            raise ConfigurationError(f"sasl.jaas.config lacks the {option} for {mechanism}")
    return Sasl(mechanism, module.options["username"], module.options["password"])


def _check_module(module: LoginModule, wanted: str, mechanism: SaslMechanism) -> None:
    if module.title != wanted:
        raise ConfigurationError(f"sasl.jaas.config must have the {wanted} for {mechanism}")


def _more(module: LoginModule) -> dict[str, str]:
    begin = "extension_"
    return {k.removeprefix(begin): v for k, v in module.options.items() if k.startswith(begin)}


def _tokens(properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    endpoint = properties.get(_ENDPOINT)
    if not endpoint:
        return _unsecured(options)
    if endpoint.startswith("file:"):
        return TokenFile(Path(unquote(urlsplit(endpoint).path)))
    prefix = "sasl.oauthbearer.client.credentials.client."
    client_id = properties.get(f"{prefix}id") or options.get("clientId")
    secret = properties.get(f"{prefix}secret") or options.get("clientSecret")
    if not client_id or not secret:
        raise ConfigurationError(
            f"sasl.jaas.config must have clientId and clientSecret for {_ENDPOINT}"
        )
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
    # As in Kafka, the module's own options say whom to trust there.
    cafile, cadata = _store(options, "truststore", options.get("ssl.truststore.certificates"))
    return ClientCredentials(endpoint, client_id, secret, scope, Tls(cafile=cafile, cadata=cadata))


def _unsecured(options: Mapping[str, str]) -> TokenSource:
    """Tokens without a signature, which Kafka makes for development."""
    begin = "unsecuredLoginStringClaim_"
    claims = {k.removeprefix(begin): v for k, v in options.items() if k.startswith(begin)}
    if "sub" not in claims:
        raise ConfigurationError(
            f"{_ENDPOINT} must say where tokens for OAUTHBEARER come from: file:///PATH, or the"
            " https://HOST/PATH of an authorization server"
        )
    lifetime = options.get("unsecuredLoginLifetimeSeconds", str(_UNSECURED_LIFETIME_S))
    if not (lifetime.isascii() and lifetime.isdecimal() and len(lifetime) < 10):
        raise ConfigurationError("unsecuredLoginLifetimeSeconds must be a whole number of seconds")
    lifetime_s = int(lifetime)

    def make() -> str:
        now_s = time.time()
        parts = ({"alg": "none"}, {**claims, "iat": now_s, "exp": now_s + lifetime_s})
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
        return ".".join((*(part.decode().rstrip("=") for part in encoded), ""))

    return make
