FROM node:24-bookworm-slim AS base
RUN apt-get update \
  && apt-get install -y --no-install-recommends git openssh-client ca-certificates \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app

FROM base AS build
COPY package.json package-lock.json ./
RUN npm ci --omit=dev
COPY . .
RUN npm run build && rm -rf node_modules/esbuild node_modules/@esbuild

FROM base
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 GRPC_PORT=9090 DATA_DIR=/data
COPY --from=build /app/package.json /app/package-lock.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/scripts/prepare.js ./scripts/
COPY --from=build /app/proto ./proto
COPY --from=build /app/ui ./ui
COPY --from=build /app/bin ./bin
COPY --from=build /app/dist ./dist
RUN install -d -o node -g node /data && ln -s /app/bin/mergelog.js /usr/local/bin/mergelog
USER node
VOLUME /data
EXPOSE 3000 9090
# Some orchestrators start an unhealthy container again: so this asks whether it lives. /healthz says whether it is ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "require(process.env.TLS_CERT ? 'https' : 'http').get({ host: '127.0.0.1', port: process.env.PORT, path: '/livez', rejectUnauthorized: false }, (r) => process.exit(r.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
CMD ["node", "--enable-source-maps", "dist/main.js"]
