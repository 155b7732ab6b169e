"""Certificates, loaded: what cannot be used ends the start with a sentence, not the first connection with an error."""

from __future__ import annotations

import ssl

from otel_ctx.errors import SettingError


def server_context(cert_file: str, key_file: str, client_ca_file: str = "") -> ssl.SSLContext:
    """For a receiver. SettingError where the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, cert_file, key_file)
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ValueError) as error:
            raise _no_ca("client_ca_file", client_ca_file, error) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """For a downstream; without ``ca_file`` what the system trusts. SettingError where the files cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ValueError) as error:
        raise _no_ca("ca_file", ca_file, error) from None
    if cert_file:
        _load_pair(context, cert_file, key_file)
    return context


def _load_pair(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    try:
        context.load_cert_chain(cert_file, key_file, password="")  # else a terminal is asked for it
    except (OSError, ValueError) as error:
        raise SettingError(
            f"cert_file {cert_file} and key_file {key_file} are no certificate and its key in PEM, "
            f"without a password ({_why(error)})"
        ) from None


def _no_ca(name: str, file: str, error: Exception) -> SettingError:
    return SettingError(f"{name}: {file} holds no certificates in PEM ({_why(error)})")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it cannot be read").lower().replace("_", " ")
    return getattr(error, "strerror", None) or type(error).__name__
