/** Listens on three sockets until it is killed, and writes a line when it does: `node sockets-until-killed.ts PATH PATH PATH`. */
import { once } from 'node:events'
import { createServer } from 'node:net'

for (const path of process.argv.slice(2)) await once(createServer().listen(path), 'listening')
process.stdout.write('listening\n')
