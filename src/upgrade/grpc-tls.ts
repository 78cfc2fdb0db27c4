/** Reads and checks the certificate and the key of the gRPC server. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { ServerCredentials } from '@grpc/grpc-js'
import { ConfigError, type SettingName } from '../config.ts'

/** Paths of PEM files: a certificate, optionally with its chain, and its private key without a passphrase. */
export interface TlsFiles {
  cert: string
  key: string
}

/** Runs `work`, which uses the value of a setting. @throws ConfigError with the message of any error */
function using<T>(setting: SettingName, problem: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new ConfigError(setting, `${problem}: ${error instanceof Error ? error.message : error}`)
  }
}

async function contents(setting: SettingName, path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new ConfigError(setting, `cannot be read: ${error instanceof Error ? error.message : error}`)
  }
}

/**
 * Checks the files now, so that the start fails, not the first client. @throws ConfigError with the setting's
 * name
 */
export async function tlsCredentials(files: TlsFiles): Promise<ServerCredentials> {
  const cert = await contents('GRPC_TLS_CERT', files.cert)
  const key = await contents('GRPC_TLS_KEY', files.key)
  const certificate = using('GRPC_TLS_CERT', 'is not a certificate', () => new X509Certificate(cert))
  const privateKey = using('GRPC_TLS_KEY', 'is not a private key without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new ConfigError('GRPC_TLS_KEY', 'is not the key of the certificate in GRPC_TLS_CERT')
  }
  using('GRPC_TLS_CERT', 'cannot be used', () => createSecureContext({ cert, key }))
  return ServerCredentials.createSsl(null, [{ cert_chain: cert, private_key: key }])
}
