/** Advice for operators about unreachable servers of a connection string. */

const NO_TLS = 'the server does not speak TLS: add tls=false, or turn TLS on at the server'

/** By error code of the failed connection. */
const ADVICE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens on this port: start it, or correct the port',
  ENOTFOUND: 'unknown host name: correct it',
  EAI_AGAIN: 'the name of the host cannot be looked up now: check the DNS',
  ETIMEDOUT: 'the host does not answer: check the address and the firewall',
  EPROTO: NO_TLS,
  ECONNRESET: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  CERT_HAS_EXPIRED: 'the certificate of the server has expired: renew it',
  CERT_NOT_YET_VALID: 'the certificate of the server is not valid yet: check the clocks',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate of the server is for another host: use a name that it has',
}

/** Error codes of a certificate with an unknown issuer. */
const UNKNOWN_ISSUER = /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_)/

/** Describes failure and remedy for one host: "127.0.0.1:2113: no server listens on this port: … (ECONNREFUSED)". */
export function connectionAdvice(host: string, code: string): string {
  const advice = UNKNOWN_ISSUER.test(code)
    ? 'the certificate of the server comes from an unknown CA: name the certificate of the CA with tlsCAFile'
    : (ADVICE[code] ?? 'the connection fails')
  return `${host}: ${advice} (${code})`
}
