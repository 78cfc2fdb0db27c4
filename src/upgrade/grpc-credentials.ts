/** TLS of the gRPC server, with a certificate that can be replaced. */
import { experimental, type ServerCredentials } from '@grpc/grpc-js'
import type { TlsPair } from '../http/connections/tls-files.ts'

/** `renew`: new connections get this certificate from now on. Those that are open go on. */
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
      // What is told within this call is lost: the server begins to listen after it.
      process.nextTick(tell, listener)
    },
    removeIdentityCertificateListener: (listener) => void listeners.delete(listener),
    // Clients need no certificate.
    addCaCertificateListener: () => {},
    removeCaCertificateListener: () => {},
  }
  return {
    // The first one is that of the server's own certificate, whatever grpc-js calls it.
    credentials: experimental.createCertificateProviderServerCredentials(provider, null, false),
    renew(next) {
      current = next
      for (const listener of listeners) tell(listener)
    },
  }
}
