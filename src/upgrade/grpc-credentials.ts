/** TLS of the gRPC server, with a replaceable certificate. */
import { experimental, type ServerCredentials } from '@grpc/grpc-js'
import type { TlsPair } from '../http/connections/tls-files.ts'

/** `renew` sets the certificate of new connections. Open ones continue. */
export interface RenewableCredentials {
  credentials: ServerCredentials
  renew(pair: TlsPair): void
}

type Listener = experimental.IdentityCertificateUpdateListener

/** Credentials with this certificate, for one server. */
export function renewableCredentials(pair: TlsPair): RenewableCredentials {
  const listeners = new Set<Listener>()
  let current = pair
  const tell = (listener: Listener) => listener({ certificate: current.cert, privateKey: current.key })
  const provider: experimental.CertificateProvider = {
    addIdentityCertificateListener(listener) {
      listeners.add(listener)
      // Deferred, because the server adds its own listener only after this call.
      process.nextTick(tell, listener)
    },
    removeIdentityCertificateListener: (listener) => void listeners.delete(listener),
    // Clients need no certificate.
    addCaCertificateListener: () => {},
    removeCaCertificateListener: () => {},
  }
  return {
    // The first argument is for the server's own certificate, although grpc-js names it otherwise.
    credentials: experimental.createCertificateProviderServerCredentials(provider, null, false),
    renew(next) {
      current = next
      for (const listener of listeners) tell(listener)
    },
  }
}
