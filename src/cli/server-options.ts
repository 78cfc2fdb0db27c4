/** Options of commands that call a running server: address and token. */
import { Option } from 'commander'

export const urlOption = () =>
  new Option('--url <url>', 'the running server (default: PUBLIC_URL, or http://HOST:PORT)')

/** `whose` names the token's owner for the help: `a site admin's token`. */
export const tokenOption = (whose: string) =>
  new Option('--token <token>', `${whose} for the running server (default: admin with ADMIN_PASSWORD)`).env(
    'MERGELOG_TOKEN',
  )
