/** Certificates for TLS in tests, made by openssl. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Tls } from './eventstore/node.ts'

export interface Certificate extends Tls {
  /** The file of the CA that clients must trust. */
  caFile: string
}

/** Makes a CA in `dir`, and by it a certificate for `name`, such as `IP:127.0.0.1`. */
export function certificateFor(dir: string, name: string, { isExpired = false } = {}): Certificate {
  mkdirSync(dir, { recursive: true })
  const file = (of: string) => join(dir, of)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: dir, stdio: 'ignore' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl('req', '-x509', ...newKey, '-subj', '/CN=CA', '-days', '2', '-keyout', 'ca.key', '-out', 'ca.pem')
  openssl('req', '-new', ...newKey, '-subj', '/CN=server', '-keyout', 'server.key', '-out', 'server.csr')
  writeFileSync(file('index'), '')
  writeFileSync(
    file('ca.conf'),
    `[ca]
default_ca = own
[own]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = ${name}
`,
  )
  const days = isExpired ? ['-startdate', '200101000000Z', '-enddate', '200102000000Z'] : ['-days', '2']
  const by = ['-config', 'ca.conf', '-cert', 'ca.pem', '-keyfile', 'ca.key', '-batch', '-notext']
  openssl('ca', ...by, ...days, '-in', 'server.csr', '-out', 'server.pem')
  return {
    caFile: file('ca.pem'),
    certificate: readFileSync(file('server.pem'), 'utf8'),
    key: readFileSync(file('server.key'), 'utf8'),
  }
}
